package driver;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** What is particular to kafka-clients 2.8. */
final class Era extends Modern {
    /** Before KIP-848. */
    static final Set<String> MISSING =
            Set.of(
                    "setting.group_protocol",
                    "group_protocol.consumer",
                    // exactly_once_v2 came with 3.0 (KIP-732).
                    "start_word_count",
                    "stop_word_count");

    private Era() {}

    static void close(KafkaConsumer<byte[], byte[]> consumer, Duration within) {
        consumer.close(within);
    }

    static Map<String, KafkaFuture<TopicDescription>> describeTopics(
            AdminClient admin, Collection<String> names) {
        return admin.describeTopics(names).values();
    }

    static Map<String, KafkaFuture<Void>> deleteTopics(AdminClient admin, List<String> names) {
        return admin.deleteTopics(names).values();
    }

    @SuppressWarnings("deprecation")
    static Map<ConfigResource, KafkaFuture<Void>> alterConfigs(
            AdminClient admin, ConfigResource resource, Config config) {
        return admin.alterConfigs(Map.of(resource, config)).values();
    }

    static Map<TopicPartition, Long> listOffsets(AdminClient admin, Map<TopicPartition, Long> times)
            throws Exception {
        if (times.containsValue(-3L)) {
            throw new Unsupported("KIP-734 came with 3.0");
        }
        return listOffsets(admin, times, Modern::spec);
    }
}
