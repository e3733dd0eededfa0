package driver;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.ToLongFunction;
import org.apache.kafka.common.TopicPartition;

/** The shapes that lines have in common. */
final class Json {
    static final ObjectMapper MAPPER = new ObjectMapper();
    private static final Comparator<TopicPartition> ORDER =
            Comparator.comparing(TopicPartition::topic).thenComparing(TopicPartition::partition);

    private Json() {}

    static JsonNode parse(String line) throws IOException {
        return MAPPER.readTree(line);
    }

    static ObjectNode object() {
        return MAPPER.createObjectNode();
    }

    static List<String> strings(JsonNode array) {
        List<String> strings = new ArrayList<>();
        array.forEach(each -> strings.add(each.asText()));
        return strings;
    }

    static Map<String, String> entries(JsonNode object) {
        Map<String, String> entries = new TreeMap<>();
        object.fieldNames().forEachRemaining(name -> entries.put(name, object.get(name).asText()));
        return entries;
    }

    static TopicPartition partition(JsonNode place) {
        return new TopicPartition(place.get("topic").asText(), place.get("partition").asInt());
    }

    static List<TopicPartition> partitions(JsonNode places) {
        List<TopicPartition> partitions = new ArrayList<>();
        places.forEach(place -> partitions.add(partition(place)));
        return partitions;
    }

    static <V> Map<TopicPartition, V> byPartition() {
        return new TreeMap<>(ORDER);
    }

    /** {@code {"places": […]}}, sorted. */
    static <V> ObjectNode places(Map<TopicPartition, V> offsets, ToLongFunction<V> offset) {
        ObjectNode answer = object();
        ArrayNode places = answer.putArray("places");
        Map<TopicPartition, V> sorted = byPartition();
        sorted.putAll(offsets);
        sorted.forEach((tp, value) -> places.add(place(tp, offset.applyAsLong(value), "")));
        return answer;
    }

    static ArrayNode places(Collection<TopicPartition> partitions) {
        ArrayNode places = MAPPER.createArrayNode();
        partitions.stream().sorted(ORDER).forEach(tp -> places.add(place(tp, -1, "")));
        return places;
    }

    static ObjectNode place(TopicPartition partition, long offset, String metadata) {
        return object()
                .put("topic", partition.topic())
                .put("partition", partition.partition())
                .put("offset", offset)
                .put("metadata", metadata);
    }
}
