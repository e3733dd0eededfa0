package driver;

import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/** What kafka-clients can express; an era takes away what it does not have yet or any more. */
final class Capabilities {
    private static final List<String> NAMES =
            List.of(
                    "open_producer produce produce_numbers close_producer",
                    "init_transactions begin_transaction send_offsets commit_transaction",
                    "abort_transaction open_consumer subscribe assign poll commit committed position",
                    "assignment pause resume seek offsets_for_times watermarks unsubscribe",
                    "close_consumer metadata create_topics delete_topics create_partitions",
                    "delete_records list_offsets describe_topic_config alter_topic_config",
                    "change_topic_config groups delete_groups group_offsets alter_group_offsets",
                    "delete_group_offsets describe_cluster describe_log_dirs",
                    "record.partition record.headers record.header_null record.tombstone",
                    "record.timestamp subscribe.pattern commit.asynchronous commit.metadata",
                    "topic.config topic.validate_only security.tls security.plain security.scram",
                    "setting.acks setting.idempotence setting.transactional_id",
                    "setting.transaction_timeout_ms setting.compression setting.partitioner",
                    "setting.max_request_bytes setting.linger_ms setting.batch_bytes",
                    "setting.max_in_flight setting.delivery_timeout_ms setting.group_id",
                    "setting.group_instance_id setting.group_protocol setting.assignors",
                    "setting.auto_commit setting.auto_commit_interval_ms setting.offset_reset",
                    "setting.isolation setting.fetch_max_wait_ms setting.fetch_max_bytes",
                    "setting.auto_create_topics setting.session_timeout_ms",
                    "setting.heartbeat_interval_ms setting.max_poll_interval_ms",
                    "setting.metadata_refresh_ms setting.request_timeout_ms",
                    "setting.retry_backoff_ms setting.reconnect_backoff_ms",
                    "setting.reconnect_backoff_max_ms",
                    "codec.none codec.gzip codec.snappy codec.lz4 codec.zstd partitioner.murmur2",
                    "group_protocol.classic group_protocol.consumer",
                    "assignor.range assignor.roundrobin assignor.sticky assignor.cooperative-sticky",
                    "offset_reset.earliest offset_reset.latest offset_reset.error",
                    "isolation.read_uncommitted isolation.read_committed");

    private Capabilities() {}

    static Set<String> all() {
        Set<String> all = new TreeSet<>();
        NAMES.forEach(line -> all.addAll(List.of(line.split(" "))));
        all.removeAll(Era.MISSING);
        return all;
    }
}
