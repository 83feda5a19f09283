import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.http.HttpClient;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/** Judges callbacks that come by lines, or reads a stream. */
public final class Check {
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    public static void main(String[] arguments) throws Exception {
        json();
        if (arguments[0].equals("callbacks")) {
            callbacks();
            return;
        }
        var signer = new WeftSigner("ws_none", "MC4CAQAwBQYDK2VwBCIEIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
        var stream = new WeftStream<Map<String, Object>>(HttpClient.newHttpClient(), signer, text -> WeftClient.object(WeftJson.read(text)),
                event -> Set.of("COMPLETED", "FAILED", "CANCELED").contains(event.get("status")), Duration.ofMillis(Long.parseLong(arguments[3])), 8);
        try {
            stream.read(arguments[1], arguments[2], null, event -> OUT.println(event.get("status") + " " + event.get("n")));
        } catch (WeftStream.Refused refused) {
            OUT.println("refused " + refused.status);
        }
    }

    private static void callbacks() throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            String[] fields = line.split("\t", -1);
            Map<String, List<String>> headers = new TreeMap<>();
            for (int i = 3; i < fields.length; i += 2) {
                headers.put(fields[i], List.of(fields[i + 1]));
            }
            var decoder = Base64.getDecoder();
            try {
                WeftCallback.verify(new String(decoder.decode(fields[0]), StandardCharsets.UTF_8), headers, decoder.decode(fields[1]), Instant.ofEpochSecond(Long.parseLong(fields[2])));
                OUT.println("genuine");
            } catch (WeftCallback.Forged forged) {
                OUT.println("forged");
            }
        }
    }

    /** What was read and written again is the same text, and what is no JSON is refused. */
    private static void json() {
        for (String text : List.of("{}", "[]", "null", "{\"a\":[1,-2.5,1E+3,true,false,null,\"\u00e9 \ud83d\ude00 \"],\"b\":{\"c\":[[],{}]}}", "\"\\u0022\\u005c\\u0001\"")) {
            if (!WeftJson.write(WeftJson.read(text)).equals(text)) {
                throw new AssertionError(text + " became " + WeftJson.write(WeftJson.read(text)));
            }
        }
        if (!WeftJson.read(" { \"\\n\\t\\/\\u00e9\" : [ 1 , 2 ] } ").equals(Map.of("\n\t/\u00e9", List.of(new java.math.BigDecimal(1), new java.math.BigDecimal(2))))) {
            throw new AssertionError("escapes");
        }
        for (String text : List.of("", "{", "[1", "[1 2]", "{\"a\"}", "\"a", "nul", "1 2", "{a:1}", "\"\\u12")) {
            try {
                throw new AssertionError(text + " was read as " + WeftJson.read(text));
            } catch (IllegalArgumentException refused) {
                continue;
            }
        }
    }
}
