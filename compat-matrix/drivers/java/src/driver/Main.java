package driver;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** Reads one JSON object a line and answers each with one line. Everything else goes to stderr. */
public final class Main {
    private static final int PROTOCOL = 1;

    private Main() {}

    public static void main(String[] arguments) throws IOException {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        // A library that prints would break the protocol.
        System.setOut(System.err);
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Session session = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            ObjectNode answer = Json.object();
            try {
                JsonNode op = Json.parse(line);
                switch (op.get("op").asText()) {
                    case "hello" -> answer.set("ok", hello());
                    case "begin" -> {
                        session = new Session(op);
                        answer.set("ok", Json.object());
                    }
                    case "end" -> {
                        if (session != null) {
                            session.close();
                        }
                        session = null;
                        answer.set("ok", Json.object());
                    }
                    default -> answer.set("ok", perform(session, op));
                }
            } catch (Unsupported unsupported) {
                answer.put("unsupported", unsupported.getMessage());
            } catch (Exception failure) {
                answer.set("error", Failure.toJson(failure));
            }
            answers.println(answer);
            answers.flush();
        }
        if (session != null) {
            session.close();
        }
    }

    private static JsonNode perform(Session session, JsonNode op) throws Exception {
        if (session == null) {
            throw new IllegalStateException("no session has begun");
        }
        return session.perform(op);
    }

    private static ObjectNode hello() throws IOException {
        ObjectNode hello = Json.object();
        hello.put("protocol", PROTOCOL);
        hello.put("client", Session.CLIENT);
        hello.put("version", Session.version());
        Session.capabilities().forEach(hello.putArray("can")::add);
        return hello;
    }
}
