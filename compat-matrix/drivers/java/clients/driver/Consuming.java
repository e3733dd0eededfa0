package driver;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Groups, assignments, positions, commits, offsets by time. */
final class Consuming implements AutoCloseable {
    static final Set<String> OPERATIONS =
            Set.of(
                    "subscribe",
                    "assign",
                    "poll",
                    "commit",
                    "committed",
                    "position",
                    "assignment",
                    "pause",
                    "resume",
                    "seek",
                    "offsets_for_times",
                    "watermarks",
                    "unsubscribe");

    /** The longest one call waits, so that a silence is measured well. */
    private static final long SLICE_MS = 50;

    private static final Duration CALL = Duration.ofMillis(Settings.CALL_MS);
    private static final long BEGINNING = -2;
    private static final long END = -1;

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final String group;
    private final ArrayNode events = Json.MAPPER.createArrayNode();

    Consuming(Properties properties) {
        group = properties.getProperty("group.id");
        consumer =
                new KafkaConsumer<>(
                        properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    KafkaConsumer<byte[], byte[]> client() {
        return consumer;
    }

    String group() {
        return group;
    }

    JsonNode perform(String name, JsonNode op) {
        switch (name) {
            case "subscribe" -> subscribe(Json.strings(op.get("topics")));
            case "assign" -> assign(op.get("partitions"));
            case "poll" -> {
                return poll(op.get("max").asInt(), op.get("idle_ms").asLong());
            }
            case "commit" -> commit(op.get("offsets"), op.get("asynchronous").asBoolean());
            case "committed" -> {
                Map<TopicPartition, OffsetAndMetadata> found =
                        Era.committed(consumer, Set.copyOf(Json.partitions(op.get("partitions"))));
                return withMetadata(found);
            }
            case "position" -> {
                Map<TopicPartition, Long> positions = Json.byPartition();
                consumer.assignment().forEach(tp -> positions.put(tp, consumer.position(tp, CALL)));
                return Json.places(positions, Long::longValue);
            }
            case "assignment" -> {
                ObjectNode answer = Json.object();
                answer.set("places", Json.places(consumer.assignment()));
                return answer;
            }
            case "pause" -> consumer.pause(Json.partitions(op.get("partitions")));
            case "resume" -> consumer.resume(Json.partitions(op.get("partitions")));
            case "seek" -> seek(op.get("partition"));
            case "offsets_for_times" -> {
                return offsetsForTimes(op.get("partitions"));
            }
            case "watermarks" -> {
                TopicPartition partition = Json.partition(op);
                List<TopicPartition> one = List.of(partition);
                return Json.object()
                        .put("low", consumer.beginningOffsets(one, CALL).get(partition))
                        .put("high", consumer.endOffsets(one, CALL).get(partition));
            }
            default -> consumer.unsubscribe();
        }
        return Json.object();
    }

    private void subscribe(List<String> topics) {
        if (topics.stream().anyMatch(topic -> topic.startsWith("^"))) {
            // All of the op's topics as one pattern; a plain name matches only itself.
            String pattern =
                    String.join(
                            "|",
                            topics.stream()
                                    .map(t -> t.startsWith("^") ? t : "^" + Pattern.quote(t) + "$")
                                    .toList());
            // A pattern of librdkafka may match a part; one of this client must match all.
            consumer.subscribe(Pattern.compile("(?:" + pattern + ").*"), new Listener());
        } else {
            consumer.subscribe(topics, new Listener());
        }
    }

    private void assign(JsonNode places) {
        consumer.assign(Json.partitions(places));
        places.forEach(this::seek);
    }

    private void seek(JsonNode place) {
        TopicPartition partition = Json.partition(place);
        long offset = place.get("offset").asLong();
        if (offset == BEGINNING) {
            consumer.seekToBeginning(List.of(partition));
        } else if (offset == END) {
            consumer.seekToEnd(List.of(partition));
        } else {
            consumer.seek(partition, offset);
        }
    }

    private ObjectNode poll(int max, long idleMs) {
        ObjectNode answer = Json.object();
        ArrayNode records = answer.putArray("records");
        long quietSince = System.nanoTime();
        do {
            try {
                Duration slice = Duration.ofMillis(Math.min(SLICE_MS, idleMs));
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(slice)) {
                    records.add(incoming(record));
                    quietSince = System.nanoTime();
                }
            } catch (KafkaException | IllegalStateException failure) {
                error(failure, Math.min(SLICE_MS, idleMs));
            }
        } while (records.size() < max && System.nanoTime() - quietSince < idleMs * 1_000_000);
        answer.set("events", events.deepCopy());
        events.removeAll();
        return answer;
    }

    /** An error that stands repeats in each poll; it is told once a poll. */
    private void error(RuntimeException failure, long pauseMs) {
        ObjectNode event = Json.object().put("event", "error").put("message", Failure.words(failure));
        if (events.isEmpty() || !events.get(events.size() - 1).equals(event)) {
            events.add(event);
        }
        try {
            Thread.sleep(pauseMs);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static ObjectNode incoming(ConsumerRecord<byte[], byte[]> record) {
        ObjectNode incoming =
                Json.object()
                        .put("topic", record.topic())
                        .put("partition", record.partition())
                        .put("offset", record.offset())
                        .put("key", record.key())
                        .put("value", record.value());
        ArrayNode headers = incoming.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
        return incoming.put("timestamp_ms", record.timestamp());
    }

    static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode places) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (JsonNode place : places) {
            offsets.put(
                    Json.partition(place),
                    new OffsetAndMetadata(
                            place.get("offset").asLong(), place.path("metadata").asText("")));
        }
        return offsets;
    }

    private void commit(JsonNode places, boolean asynchronous) {
        Map<TopicPartition, OffsetAndMetadata> offsets = places.isNull() ? null : offsets(places);
        if (asynchronous) {
            if (offsets == null) {
                consumer.commitAsync(this::committed);
            } else {
                consumer.commitAsync(offsets, this::committed);
            }
        } else if (offsets == null) {
            consumer.commitSync(CALL);
        } else {
            consumer.commitSync(offsets, CALL);
        }
    }

    private void committed(Map<TopicPartition, OffsetAndMetadata> offsets, Exception failure) {
        events.addObject()
                .put("event", "committed")
                .put("error", failure == null ? null : Failure.words(failure));
    }

    static ObjectNode withMetadata(Map<TopicPartition, OffsetAndMetadata> offsets) {
        Map<TopicPartition, OffsetAndMetadata> sorted = Json.byPartition();
        sorted.putAll(offsets);
        ObjectNode answer = Json.object();
        ArrayNode places = answer.putArray("places");
        sorted.forEach(
                (tp, found) ->
                        places.add(
                                found == null
                                        ? Json.place(tp, -1, "")
                                        : Json.place(
                                                tp,
                                                found.offset(),
                                                Objects.toString(found.metadata(), ""))));
        return answer;
    }

    private ObjectNode offsetsForTimes(JsonNode places) {
        Map<TopicPartition, Long> times = new HashMap<>();
        places.forEach(place -> times.put(Json.partition(place), place.get("offset").asLong()));
        Map<TopicPartition, OffsetAndTimestamp> found = consumer.offsetsForTimes(times, CALL);
        return Json.places(found, each -> each == null ? -1 : each.offset());
    }

    @Override
    public void close() {
        Era.close(consumer, Duration.ofSeconds(5));
    }

    /** Notes what the group does. */
    private final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            note("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            note("revoked", partitions);
        }

        private void note(String what, Collection<TopicPartition> partitions) {
            events.addObject().put("event", what).set("partitions", Json.places(partitions));
        }
    }
}
