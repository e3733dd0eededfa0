package driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.security.GeneralSecurityException;
import java.util.Set;
import org.apache.kafka.clients.producer.KafkaProducer;

/** The clients of one session. */
final class Session implements AutoCloseable {
    static final String CLIENT = "kafka-clients";

    private final Settings settings;
    private Producing producing;
    private Consuming consuming;
    private Administration administration;
    private WordCount wordCount;

    Session(JsonNode begin) throws IOException, GeneralSecurityException {
        settings = new Settings(begin);
    }

    static String version() {
        // 4.4 moved the class that tells it.
        return Jar.version(KafkaProducer.class, "kafka-clients");
    }

    static Set<String> capabilities() throws IOException {
        return Capabilities.all();
    }

    JsonNode perform(JsonNode op) throws Exception {
        String name = op.get("op").asText();
        switch (name) {
            case "open_producer" -> {
                closeProducer();
                producing = new Producing(settings.producer(op.get("settings")));
                return Json.object();
            }
            case "close_producer" -> {
                closeProducer();
                return Json.object();
            }
            case "open_consumer" -> {
                closeConsumer();
                consuming = new Consuming(settings.consumer(op.get("settings")));
                return Json.object();
            }
            case "close_consumer" -> {
                closeConsumer();
                return Json.object();
            }
            case "start_word_count" -> {
                closeWordCount();
                wordCount = new WordCount(settings.streams(), op);
                wordCount.awaitRunning();
                return Json.object();
            }
            case "stop_word_count" -> {
                closeWordCount();
                return Json.object();
            }
            case "send_offsets" -> {
                producer().sendOffsets(op.get("offsets"), consumer());
                return Json.object();
            }
            default -> {
                if (Producing.OPERATIONS.contains(name)) {
                    return producer().perform(name, op);
                }
                if (Consuming.OPERATIONS.contains(name)) {
                    return consumer().perform(name, op);
                }
                if (administration == null) {
                    administration = new Administration(settings.admin());
                }
                return administration.perform(name, op);
            }
        }
    }

    private Producing producer() {
        if (producing == null) {
            throw new IllegalStateException("this session has no producer open");
        }
        return producing;
    }

    private Consuming consumer() {
        if (consuming == null) {
            throw new IllegalStateException("this session has no consumer open");
        }
        return consuming;
    }

    private void closeProducer() {
        Producing open = producing;
        producing = null;
        if (open != null) {
            open.close();
        }
    }

    private void closeConsumer() {
        Consuming open = consuming;
        consuming = null;
        if (open != null) {
            open.close();
        }
    }

    private void closeWordCount() {
        WordCount running = wordCount;
        wordCount = null;
        if (running != null) {
            running.close();
        }
    }

    @Override
    public void close() {
        // One that fails to close must not keep the others open.
        try {
            closeWordCount();
            closeProducer();
        } finally {
            try {
                closeConsumer();
            } finally {
                if (administration != null) {
                    administration.close();
                }
                settings.close();
            }
        }
    }
}
