package driver;

import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/** What is particular to kafka-clients 4.1 and newer. */
final class Era extends Modern {
    /** 4.0 took AlterConfigs away. */
    static final Set<String> MISSING = Set.of("alter_topic_config");

    private Era() {}

    static void close(KafkaConsumer<byte[], byte[]> consumer, Duration within) {
        consumer.close(CloseOptions.timeout(within));
    }

    static Map<String, KafkaFuture<TopicDescription>> describeTopics(
            AdminClient admin, Collection<String> names) {
        return admin.describeTopics(names).topicNameValues();
    }

    static Map<String, KafkaFuture<Void>> deleteTopics(AdminClient admin, List<String> names) {
        return admin.deleteTopics(names).topicNameValues();
    }

    static Map<ConfigResource, KafkaFuture<Void>> alterConfigs(
            AdminClient admin, ConfigResource resource, Config config) {
        throw new Unsupported("alter_topic_config");
    }

    static Map<TopicPartition, Long> listOffsets(AdminClient admin, Map<TopicPartition, Long> times)
            throws Exception {
        return listOffsets(
                admin, times, time -> time == -3 ? OffsetSpec.maxTimestamp() : spec(time));
    }
}
