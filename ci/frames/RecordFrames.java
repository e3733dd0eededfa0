// Records golden frames with kafka-clients' own message classes: reads what contents.py prints,
// writes one file per API into the folder given.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Base64;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;

public final class RecordFrames {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int CORRELATION_ID = 0x01020304;
    private static final String CLIENT_ID = "gölden";
    // A tag no definition uses: readers must step over it.
    private static final int UNKNOWN_TAG = 12345;

    public static void main(String[] args) throws Exception {
        Map<String, StringBuilder> files = new TreeMap<>();
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] part = line.split("\t", 6);
            String name = part[0];
            short key = Short.parseShort(part[1]);
            short version = Short.parseShort(part[3]);
            boolean full = part[4].equals("full");
            JsonNode content = JSON.readTree(part[5]);

            String type = "org.apache.kafka.common.message." + name + (key < 0 ? "" : "Data");
            Message message = (Message) Class.forName(type + "JsonConverter")
                .getMethod("read", JsonNode.class, short.class)
                .invoke(null, content, version);
            if (full && key >= 0 && flexible(part[2], key, version)) {
                message.unknownTaggedFields().add(new RawTaggedField(UNKNOWN_TAG, new byte[] {1, 2, 3}));
            }

            ObjectNode out = JSON.createObjectNode();
            out.put("message", name);
            out.put("version", version);
            out.put("variant", part[4]);
            out.put("frame", Base64.getEncoder().encodeToString(frame(part[2], key, version, message)));
            if (full) {
                out.set("content", content);
            }
            String file = key < 0 ? "ConsumerProtocol" : ApiKeys.forId(key).name;
            files.computeIfAbsent(file, ignored -> new StringBuilder()).append(out).append('\n');
        }
        for (var file : files.entrySet()) {
            Files.writeString(Path.of(args[0], file.getKey() + ".jsonl"), file.getValue());
        }
    }

    private static boolean flexible(String side, short key, short version) {
        ApiKeys api = ApiKeys.forId(key);
        return side.equals("request")
            ? api.requestHeaderVersion(version) >= 2
            // The header of ApiVersions stays at 0; its body is flexible all the same.
            : api.responseHeaderVersion(version) >= 1 || api == ApiKeys.API_VERSIONS && version >= 3;
    }

    private static byte[] frame(String side, short key, short version, Message body) {
        switch (side) {
            case "request": {
                Message header = new RequestHeaderData()
                    .setRequestApiKey(key)
                    .setRequestApiVersion(version)
                    .setCorrelationId(CORRELATION_ID)
                    .setClientId(CLIENT_ID);
                return bytes(header, ApiKeys.forId(key).requestHeaderVersion(version), body, version);
            }
            case "response": {
                Message header = new ResponseHeaderData().setCorrelationId(CORRELATION_ID);
                return bytes(header, ApiKeys.forId(key).responseHeaderVersion(version), body, version);
            }
            default:
                return concat(ByteBuffer.allocate(2).putShort(version).array(), bytes(body, version));
        }
    }

    private static byte[] bytes(Message header, short headerVersion, Message body, short version) {
        return concat(bytes(header, headerVersion), bytes(body, version));
    }

    private static byte[] bytes(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    private static byte[] concat(byte[] a, byte[] b) {
        return ByteBuffer.allocate(a.length + b.length).put(a).put(b).array();
    }
}
