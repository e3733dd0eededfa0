package driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.security.GeneralSecurityException;
import java.util.Set;
import org.springframework.kafka.core.KafkaTemplate;

/** One listener of Spring Kafka at a time. */
final class Session implements AutoCloseable {
    static final String CLIENT = "Spring Kafka";

    private final Settings settings;
    private Listener listener;

    Session(JsonNode begin) throws IOException, GeneralSecurityException {
        settings = new Settings(begin);
    }

    static String version() {
        return Jar.version(KafkaTemplate.class, "spring-kafka");
    }

    static Set<String> capabilities() {
        return Set.of("security.tls", "security.plain", "start_listener", "stop_listener");
    }

    JsonNode perform(JsonNode op) throws Exception {
        switch (op.get("op").asText()) {
            case "start_listener" -> {
                stop();
                listener = new Listener(settings.common(), op);
                listener.awaitAssigned();
            }
            case "stop_listener" -> stop();
            default -> throw new Unsupported(op.get("op").asText());
        }
        return Json.object();
    }

    private void stop() {
        Listener running = listener;
        listener = null;
        if (running != null) {
            running.close();
        }
    }

    @Override
    public void close() {
        try {
            stop();
        } finally {
            settings.close();
        }
    }
}
