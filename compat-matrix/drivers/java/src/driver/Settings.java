package driver;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;

/** The protocol's settings in the client's names. */
final class Settings implements AutoCloseable {
    /** How long one blocking call may take. */
    static final int CALL_MS = 15_000;

    /** What the client waits by itself, since 4.0; before it was 0. */
    private static final int LINGER_MS = 5;
    private static final String TRUST_PASSWORD = "certificates-only";

    /** Those that have a name of their own and the same values. */
    private static final Map<String, String> NAMES =
            Map.ofEntries(
                    Map.entry("acks", "acks"),
                    Map.entry("idempotence", "enable.idempotence"),
                    Map.entry("transactional_id", "transactional.id"),
                    Map.entry("transaction_timeout_ms", "transaction.timeout.ms"),
                    Map.entry("compression", "compression.type"),
                    Map.entry("max_request_bytes", "max.request.size"),
                    Map.entry("linger_ms", "linger.ms"),
                    Map.entry("batch_bytes", "batch.size"),
                    Map.entry("max_in_flight", "max.in.flight.requests.per.connection"),
                    Map.entry("delivery_timeout_ms", "delivery.timeout.ms"),
                    Map.entry("group_id", "group.id"),
                    Map.entry("group_instance_id", "group.instance.id"),
                    Map.entry("group_protocol", "group.protocol"),
                    Map.entry("auto_commit", "enable.auto.commit"),
                    Map.entry("auto_commit_interval_ms", "auto.commit.interval.ms"),
                    Map.entry("isolation", "isolation.level"),
                    Map.entry("fetch_max_wait_ms", "fetch.max.wait.ms"),
                    Map.entry("auto_create_topics", "allow.auto.create.topics"),
                    Map.entry("session_timeout_ms", "session.timeout.ms"),
                    Map.entry("heartbeat_interval_ms", "heartbeat.interval.ms"),
                    Map.entry("max_poll_interval_ms", "max.poll.interval.ms"),
                    Map.entry("metadata_refresh_ms", "metadata.max.age.ms"),
                    Map.entry("request_timeout_ms", "request.timeout.ms"),
                    Map.entry("retry_backoff_ms", "retry.backoff.ms"),
                    Map.entry("reconnect_backoff_ms", "reconnect.backoff.ms"),
                    Map.entry("reconnect_backoff_max_ms", "reconnect.backoff.max.ms"));

    private static final Map<String, String> ASSIGNORS =
            Map.of(
                    "range", "RangeAssignor",
                    "roundrobin", "RoundRobinAssignor",
                    "sticky", "StickyAssignor",
                    "cooperative-sticky", "CooperativeStickyAssignor");

    private final Properties common = new Properties();
    private Path trustStore;

    Settings(JsonNode begin) throws IOException, GeneralSecurityException {
        common.put("bootstrap.servers", begin.get("bootstrap").asText());
        common.put("client.id", begin.get("client_id").asText());
        common.put("default.api.timeout.ms", String.valueOf(CALL_MS));
        JsonNode tls = begin.path("tls");
        JsonNode sasl = begin.path("sasl");
        if (tls.isObject()) {
            trustStore = trust(Path.of(tls.get("ca_file").asText()));
            common.put("ssl.truststore.location", trustStore.toString());
            common.put("ssl.truststore.password", TRUST_PASSWORD);
            common.put("ssl.truststore.type", "PKCS12");
        }
        if (sasl.isObject()) {
            common.put("sasl.mechanism", sasl.get("mechanism").asText());
            common.put("sasl.jaas.config", login(sasl));
        }
        String sasled = sasl.isObject() ? "SASL_" : "";
        String transport = tls.isObject() ? "SSL" : "PLAINTEXT";
        common.put("security.protocol", sasled + transport);
    }

    /** Clients before 2.7 read no PEM (KIP-651), so every version gets a PKCS #12 store. */
    private static Path trust(Path pem) throws IOException, GeneralSecurityException {
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(null, null);
        try (InputStream in = Files.newInputStream(pem)) {
            int count = 0;
            for (Certificate each : CertificateFactory.getInstance("X.509").generateCertificates(in)) {
                store.setCertificateEntry("ca-" + count++, each);
            }
        }
        Path path = Files.createTempFile("driver-trust-", ".p12");
        try (OutputStream out = Files.newOutputStream(path)) {
            store.store(out, TRUST_PASSWORD.toCharArray());
        }
        return path;
    }

    private static String login(JsonNode sasl) {
        String module =
                sasl.get("mechanism").asText().equals("PLAIN")
                        ? "plain.PlainLoginModule"
                        : "scram.ScramLoginModule";
        return "org.apache.kafka.common.security."
                + module
                + " required username="
                + quoted(sasl.get("username").asText())
                + " password="
                + quoted(sasl.get("password").asText())
                + ";";
    }

    private static String quoted(String text) {
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
    }

    /** What every client needs to connect. */
    Properties common() {
        Properties properties = new Properties();
        properties.putAll(common);
        return properties;
    }

    Properties producer(JsonNode settings) {
        Properties properties = translate(settings);
        properties.put("max.block.ms", String.valueOf(CALL_MS));
        // The client refuses a request time above what a record has in all.
        if (settings.has("delivery_timeout_ms") && !settings.has("request_timeout_ms")) {
            long all = settings.get("delivery_timeout_ms").asLong();
            long rest = all - settings.path("linger_ms").asLong(LINGER_MS) - 1;
            properties.put("request.timeout.ms", String.valueOf(Math.min(30_000, rest)));
        }
        return properties;
    }

    Properties consumer(JsonNode settings) {
        Properties properties = translate(settings);
        // So that what was polled, what a position says and what a commit stores are the same.
        properties.put("max.poll.records", "1");
        if (settings.path("group_protocol").asText().equals("consumer")) {
            // The server decides these in KIP-848, and the client refuses to be told.
            properties.remove("session.timeout.ms");
            properties.remove("heartbeat.interval.ms");
            properties.remove("partition.assignment.strategy");
        }
        return properties;
    }

    Properties admin() {
        Properties properties = common();
        properties.put("request.timeout.ms", String.valueOf(CALL_MS));
        return properties;
    }

    /** Those of an application that loses its server for a moment and goes on. */
    Properties streams() {
        Properties properties = common();
        properties.remove("default.api.timeout.ms");
        properties.put("processing.guarantee", "exactly_once_v2");
        properties.put("commit.interval.ms", "100");
        properties.put("replication.factor", "1");
        properties.put("consumer.session.timeout.ms", "6000");
        properties.put("consumer.heartbeat.interval.ms", "200");
        properties.put("consumer.auto.offset.reset", "earliest");
        properties.put("producer.linger.ms", "1");
        return properties;
    }

    private Properties translate(JsonNode settings) {
        Properties properties = common();
        settings.fieldNames()
                .forEachRemaining(name -> put(properties, name, settings.get(name)));
        return properties;
    }

    private static void put(Properties properties, String name, JsonNode value) {
        switch (name) {
            case "assignors" -> {
                List<String> classes = new ArrayList<>();
                value.forEach(
                        word ->
                                classes.add(
                                        "org.apache.kafka.clients.consumer."
                                                + ASSIGNORS.get(word.asText())));
                properties.put("partition.assignment.strategy", String.join(",", classes));
            }
            case "offset_reset" -> {
                String word = value.asText();
                properties.put("auto.offset.reset", word.equals("error") ? "none" : word);
            }
            case "fetch_max_bytes" -> {
                properties.put("fetch.max.bytes", value.asText());
                properties.put("max.partition.fetch.bytes", value.asText());
            }
            // The client's own partitioner is the one.
            case "partitioner" -> {}
            default -> {
                String own = NAMES.get(name);
                if (own == null) {
                    throw new Unsupported("setting." + name);
                }
                properties.put(own, value.asText());
            }
        }
    }

    @Override
    public void close() {
        if (trustStore != null) {
            try {
                Files.deleteIfExists(trustStore);
            } catch (IOException left) {
                System.err.println("left behind: " + left);
            }
        }
    }
}
