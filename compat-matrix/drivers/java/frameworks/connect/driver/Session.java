package driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.security.GeneralSecurityException;
import java.util.Set;
import org.apache.kafka.connect.cli.ConnectDistributed;

/** One worker of Kafka Connect at a time. */
final class Session implements AutoCloseable {
    static final String CLIENT = "Kafka Connect";

    private final Settings settings;
    private FileCopy copy;

    Session(JsonNode begin) throws IOException, GeneralSecurityException {
        settings = new Settings(begin);
    }

    static String version() {
        return Jar.version(ConnectDistributed.class, "connect-runtime");
    }

    static Set<String> capabilities() {
        return Set.of("security.tls", "security.plain", "start_file_copy", "stop_file_copy");
    }

    JsonNode perform(JsonNode op) throws Exception {
        switch (op.get("op").asText()) {
            case "start_file_copy" -> {
                stop();
                copy = new FileCopy(settings.common(), op);
                copy.awaitRunning();
            }
            case "stop_file_copy" -> stop();
            default -> throw new Unsupported(op.get("op").asText());
        }
        return Json.object();
    }

    private void stop() {
        FileCopy running = copy;
        copy = null;
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
