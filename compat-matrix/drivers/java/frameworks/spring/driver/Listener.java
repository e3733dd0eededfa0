package driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.kafka.listener.ConcurrentMessageListenerContainer;
import org.springframework.kafka.listener.ContainerProperties;
import org.springframework.kafka.listener.DeadLetterPublishingRecoverer;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.listener.MessageListener;
import org.springframework.util.backoff.FixedBackOff;

/**
 * A listener that copies values in a transaction of its own for each, fails on those that begin with
 * "bad" after it has copied them, and leaves what has failed three times to a topic of dead letters.
 */
final class Listener implements AutoCloseable {
    private static final long ASSIGNED_WITHIN_MS = 30_000;
    private static final long TRIES_AGAIN = 2;

    private final DefaultKafkaProducerFactory<String, String> producers;
    private final ConcurrentMessageListenerContainer<String, String> container;

    Listener(Properties common, JsonNode op) {
        String group = op.get("group").asText();
        String output = op.get("output").asText();
        TopicPartition dead = new TopicPartition(op.get("dead").asText(), 0);

        Map<String, Object> producing = all(common);
        producing.put("key.serializer", StringSerializer.class);
        producing.put("value.serializer", StringSerializer.class);
        producers = new DefaultKafkaProducerFactory<>(producing);
        producers.setTransactionIdPrefix(group + "-");
        KafkaTemplate<String, String> template = new KafkaTemplate<>(producers);

        Map<String, Object> consuming = all(common);
        consuming.put("key.deserializer", StringDeserializer.class);
        consuming.put("value.deserializer", StringDeserializer.class);
        consuming.put("auto.offset.reset", "earliest");
        consuming.put("session.timeout.ms", "6000");
        consuming.put("heartbeat.interval.ms", "200");

        ContainerProperties settings = new ContainerProperties(op.get("input").asText());
        settings.setGroupId(group);
        settings.setAckMode(ContainerProperties.AckMode.RECORD);
        MessageListener<String, String> listener =
                record ->
                        template.executeInTransaction(
                                copies -> {
                                    copies.send(output, 0, record.key(), record.value());
                                    if (record.value().startsWith("bad")) {
                                        throw new IllegalStateException("a bad record");
                                    }
                                    return true;
                                });
        settings.setMessageListener(listener);
        container =
                new ConcurrentMessageListenerContainer<>(
                        new DefaultKafkaConsumerFactory<String, String>(consuming), settings);
        container.setCommonErrorHandler(
                new DefaultErrorHandler(
                        new DeadLetterPublishingRecoverer(template, (record, failure) -> dead),
                        new FixedBackOff(0, TRIES_AGAIN)));
        container.start();
    }

    private static Map<String, Object> all(Properties common) {
        Map<String, Object> all = new HashMap<>();
        common.stringPropertyNames().forEach(name -> all.put(name, common.getProperty(name)));
        return all;
    }

    void awaitAssigned() throws InterruptedException {
        long deadline = System.nanoTime() + ASSIGNED_WITHIN_MS * 1_000_000;
        while (container.getAssignedPartitions().isEmpty()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("nothing is assigned to the listener");
            }
            Thread.sleep(20);
        }
    }

    @Override
    public void close() {
        container.stop();
        producers.destroy();
    }
}
