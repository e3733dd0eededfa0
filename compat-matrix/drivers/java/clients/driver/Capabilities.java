package driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InputStream;
import java.util.Set;
import java.util.TreeSet;

/** What kafka-clients can express: everything but what its era does not have, yet or any more. */
final class Capabilities {
    private static final Set<String> NEVER =
            Set.of("setting.batch_records", "setting.topic_propagation_ms");
    /** What Kafka Streams adds, of the client's own version, and what Flink does to the client. */
    private static final Set<String> FRAMEWORKS =
            Set.of(
                    "start_word_count",
                    "stop_word_count",
                    "transaction_identity",
                    "resume_transaction");

    private Capabilities() {}

    static Set<String> all() throws IOException {
        Set<String> all = new TreeSet<>();
        try (InputStream file = Capabilities.class.getResourceAsStream("/capabilities.json")) {
            for (JsonNode name : Json.MAPPER.readTree(file)) {
                all.add(name.asText());
            }
        }
        all.addAll(FRAMEWORKS);
        all.removeAll(NEVER);
        all.removeAll(Era.MISSING);
        return all;
    }
}
