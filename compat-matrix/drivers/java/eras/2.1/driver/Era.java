package driver;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.requests.DescribeLogDirsResponse;

/** What is particular to kafka-clients 2.1. */
final class Era {
    /** What came with 2.3 to 2.5, and KIP-848. */
    static final Set<String> MISSING =
            Set.of(
                    "start_word_count",
                    "stop_word_count",
                    // What Flink does is written for the fields of newer ones.
                    "transaction_identity",
                    "resume_transaction",
                    "setting.group_protocol",
                    "group_protocol.consumer",
                    "setting.group_instance_id",
                    "setting.auto_create_topics",
                    "assignor.cooperative-sticky",
                    "list_offsets",
                    "change_topic_config",
                    "alter_group_offsets",
                    "delete_group_offsets");

    private Era() {}

    static void sendOffsets(
            KafkaProducer<byte[], byte[]> producer,
            Map<TopicPartition, OffsetAndMetadata> offsets,
            KafkaConsumer<byte[], byte[]> consumer,
            String group) {
        producer.sendOffsetsToTransaction(offsets, group);
    }

    static void close(KafkaProducer<byte[], byte[]> producer, Duration within) {
        producer.close(within.toMillis(), TimeUnit.MILLISECONDS);
    }

    static void close(KafkaConsumer<byte[], byte[]> consumer, Duration within) {
        consumer.close(within);
    }

    static void close(AdminClient admin) {
        admin.close(5, TimeUnit.SECONDS);
    }

    static Map<TopicPartition, OffsetAndMetadata> committed(
            KafkaConsumer<byte[], byte[]> consumer, Set<TopicPartition> partitions) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        Duration within = Duration.ofMillis(Settings.CALL_MS);
        partitions.forEach(tp -> found.put(tp, consumer.committed(tp, within)));
        return found;
    }

    static Map<String, KafkaFuture<TopicDescription>> describeTopics(
            AdminClient admin, Collection<String> names) {
        return admin.describeTopics(names).values();
    }

    static Map<String, KafkaFuture<Void>> deleteTopics(AdminClient admin, List<String> names) {
        return admin.deleteTopics(names).values();
    }

    static Map<ConfigResource, KafkaFuture<Void>> alterConfigs(
            AdminClient admin, ConfigResource resource, Config config) {
        return admin.alterConfigs(Map.of(resource, config)).values();
    }

    static Map<ConfigResource, KafkaFuture<Void>> changeConfigs(
            AdminClient admin, ConfigResource resource, Map<String, String> set, List<String> delete) {
        throw new Unsupported("KIP-339 came with 2.3");
    }

    static Map<TopicPartition, Long> listOffsets(AdminClient admin, Map<TopicPartition, Long> times) {
        throw new Unsupported("KIP-396 came with 2.5");
    }

    static void alterGroupOffsets(
            AdminClient admin, String group, Map<TopicPartition, OffsetAndMetadata> offsets) {
        throw new Unsupported("KIP-396 came with 2.5");
    }

    static void deleteGroupOffsets(
            AdminClient admin, String group, Collection<TopicPartition> partitions) {
        throw new Unsupported("KIP-496 came with 2.4");
    }

    static Map<TopicPartition, Long> logSizes(AdminClient admin, int node) throws Exception {
        Map<TopicPartition, Long> sizes = new HashMap<>();
        for (DescribeLogDirsResponse.LogDirInfo folder :
                Administration.get(admin.describeLogDirs(List.of(node)).values().get(node)).values()) {
            folder.replicaInfos.forEach((tp, replica) -> sizes.merge(tp, replica.size, Long::sum));
        }
        return sizes;
    }
}
