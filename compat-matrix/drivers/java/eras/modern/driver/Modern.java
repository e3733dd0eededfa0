package driver;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongFunction;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.LogDirDescription;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** What kafka-clients has in common since 2.5 or so; an era that has it is one of these. */
class Modern {
    static void sendOffsets(
            KafkaProducer<byte[], byte[]> producer,
            Map<TopicPartition, OffsetAndMetadata> offsets,
            KafkaConsumer<byte[], byte[]> consumer,
            String group) {
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
    }

    static void close(KafkaProducer<byte[], byte[]> producer, Duration within) {
        producer.close(within);
    }

    static void close(AdminClient admin) {
        admin.close(Duration.ofSeconds(5));
    }

    static Map<TopicPartition, OffsetAndMetadata> committed(
            KafkaConsumer<byte[], byte[]> consumer, Set<TopicPartition> partitions) {
        return consumer.committed(partitions, Duration.ofMillis(Settings.CALL_MS));
    }

    static Map<ConfigResource, KafkaFuture<Void>> changeConfigs(
            AdminClient admin, ConfigResource resource, Map<String, String> set, List<String> delete) {
        List<AlterConfigOp> ops =
                Stream.concat(
                                set.entrySet().stream()
                                        .map(e -> new ConfigEntry(e.getKey(), e.getValue()))
                                        .map(e -> new AlterConfigOp(e, AlterConfigOp.OpType.SET)),
                                delete.stream()
                                        .map(name -> new ConfigEntry(name, null))
                                        .map(e -> new AlterConfigOp(e, AlterConfigOp.OpType.DELETE)))
                        .toList();
        return admin.incrementalAlterConfigs(Map.of(resource, ops)).values();
    }

    static Map<TopicPartition, Long> listOffsets(
            AdminClient admin, Map<TopicPartition, Long> times, LongFunction<OffsetSpec> spec)
            throws Exception {
        Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
        times.forEach((tp, time) -> wanted.put(tp, spec.apply(time)));
        ListOffsetsResult result = admin.listOffsets(wanted);
        Map<TopicPartition, Long> found = new HashMap<>();
        for (TopicPartition tp : wanted.keySet()) {
            found.put(tp, Administration.get(result.partitionResult(tp)).offset());
        }
        return found;
    }

    static OffsetSpec spec(long time) {
        if (time == -1) {
            return OffsetSpec.latest();
        }
        return time == -2 ? OffsetSpec.earliest() : OffsetSpec.forTimestamp(time);
    }

    static void alterGroupOffsets(
            AdminClient admin, String group, Map<TopicPartition, OffsetAndMetadata> offsets)
            throws Exception {
        Administration.get(admin.alterConsumerGroupOffsets(group, offsets).all());
    }

    static void deleteGroupOffsets(
            AdminClient admin, String group, Collection<TopicPartition> partitions)
            throws Exception {
        Administration.get(admin.deleteConsumerGroupOffsets(group, Set.copyOf(partitions)).all());
    }

    static Map<TopicPartition, Long> logSizes(AdminClient admin, int node) throws Exception {
        Map<TopicPartition, Long> sizes = new HashMap<>();
        for (LogDirDescription folder :
                Administration.get(admin.describeLogDirs(List.of(node)).descriptions().get(node))
                        .values()) {
            folder.replicaInfos().forEach((tp, replica) -> sizes.merge(tp, replica.size(), Long::sum));
        }
        return sizes;
    }
}
