import com.sun.net.httpserver.HttpServer;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.TimeUnit;

/**
 * All that one does with Weft, once each; prints what came of it as JSON.
 *
 * <pre>javac *.java &amp;&amp; java Journey .weft/credentials.json</pre>
 *
 * The callback comes to a port of this machine: weft dev --allow-network 127.0.0.0/8.
 */
public final class Journey {
    private static final String SECRET = "a secret of both, with an \u00e4";

    private record Delivery(Map<String, List<String>> headers, byte[] body) {}

    private final WeftClient weft;

    private Journey(WeftClient weft) {
        this.weft = weft;
    }

    public static void main(String[] arguments) throws Exception {
        Path path = Path.of(arguments.length > 0 ? arguments[0] : ".weft/credentials.json");
        var credentials = WeftClient.object(WeftJson.read(Files.readString(path)));
        var weft = new WeftClient((String) credentials.get("baseUrl"), (String) credentials.get("apiKey"), (String) credentials.get("apiSecret"));
        var journey = new Journey(weft);
        Map<String, Object> facts = new LinkedHashMap<>();
        facts.put("inline", journey.inline());
        facts.put("polled", journey.polled());
        facts.put("streamed", journey.streamed());
        facts.put("run", journey.run(member(credentials.get("workflows"), "fanOut")));
        facts.put("callback", journey.callback());
        facts.put("refused", journey.refused());
        System.out.println(WeftJson.write(facts));
    }

    /** A member of an output, which is the component's own. */
    private static String member(Object output, String name) {
        return (String) WeftClient.object(output).get(name);
    }

    private Map<String, Object> inline() throws Exception {
        var record = weft.execute("RANDOM_UUID", Map.of(), Map.of(), Map.of("waitForMs", 15000), null);
        return Map.of("id", record.id(), "status", record.status(), "uuid", member(record.output(), "uuid"));
    }

    private Map<String, Object> polled() throws Exception {
        var record = weft.execute("HASH", Map.of("data", "h\u00e4llo", "algorithm", "sha256"), Map.of(), Map.of(), UUID.randomUUID().toString());
        String first = record.status();
        for (long pause = 20; !record.isFinal(); pause = Math.min(2 * pause, 2000)) {
            Thread.sleep(pause);
            record = weft.execution(record.id());
        }
        return Map.of("id", record.id(), "first", first, "status", record.status(), "digest", member(record.output(), "digest"));
    }

    private Map<String, Object> streamed() throws Exception {
        String id = weft.execute("RANDOM_UUID", Map.of(), Map.of(), Map.of(), null).id();
        List<WeftClient.ExecutionEvent> events = new ArrayList<>();
        weft.executionEvents(id, events::add);
        return Map.of("id", id, "statuses", events.stream().map(WeftClient.ExecutionEvent::status).toList(),
                "uuid", member(events.get(events.size() - 1).output(), "uuid"));
    }

    private Map<String, Object> run(String workflowId) throws Exception {
        String id = weft.trigger(workflowId, Map.of(), null);
        List<WeftClient.RunEvent> events = new ArrayList<>();
        weft.runEvents(id, 0, events::add);
        return Map.of("id", id,
                "seqs", events.stream().map(WeftClient.RunEvent::seq).toList(),
                "statuses", events.stream().map(WeftClient.RunEvent::status).toList(),
                "totalUsage", events.get(events.size() - 1).output().get("totalUsage"),
                "prices", WeftClient.object(weft.run(id).output()).get("prices"));
    }

    /** A server that takes callbacks: 204 for what is genuine, 401 for anything else. */
    private static HttpServer receiver(BlockingQueue<Delivery> came) throws Exception {
        var server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            int answer = 401;
            try {
                WeftCallback.verify(SECRET, exchange.getRequestHeaders(), body, Instant.now());
                answer = 204;
            } catch (WeftCallback.Forged forged) {
                // 401
            } catch (Exception other) {
                answer = 500;
            }
            exchange.sendResponseHeaders(answer, -1);
            exchange.close();
            if (answer == 204) {
                came.add(new Delivery(Map.copyOf(exchange.getRequestHeaders()), body));
            }
        });
        server.start();
        return server;
    }

    private Map<String, Object> callback() throws Exception {
        BlockingQueue<Delivery> came = new ArrayBlockingQueue<>(8);
        var server = receiver(came);
        try {
            String url = "http://127.0.0.1:" + server.getAddress().getPort() + "/weft";
            var sent = weft.execute("RANDOM_UUID", Map.of(), Map.of(),
                    Map.of("callbackUrl", url, "callbackSecret", SECRET, "callbackHeaders", Map.of("X-Order", "4711")), null);
            var delivery = came.poll(30, TimeUnit.SECONDS);
            String body = new String(delivery.body(), StandardCharsets.UTF_8);
            var forged = HttpRequest.newBuilder(URI.create(url)).POST(HttpRequest.BodyPublishers.ofString(body.replace("\"COMPLETED\"", "\"FAILED\"")));
            delivery.headers().forEach((name, values) -> {
                if (name.startsWith("X-") || name.startsWith("Webhook-")) {
                    forged.header(name, values.get(0));
                }
            });
            var altered = HttpClient.newHttpClient().send(forged.build(), HttpResponse.BodyHandlers.discarding());
            return Map.of("id", sent.id(), "executionId", delivery.headers().get("X-svc-execution-id").get(0),
                    "order", delivery.headers().get("X-order").get(0),
                    "uuid", member(WeftClient.object(WeftJson.read(body)).get("output"), "uuid"), "altered", altered.statusCode());
        } finally {
            server.stop(0);
        }
    }

    private Map<String, Object> refused() throws Exception {
        try {
            weft.execute("HASH", Map.of("algorithm", "sha256"), Map.of(), Map.of(), null);
            throw new IllegalStateException("it was not refused");
        } catch (WeftClient.Refusal refusal) {
            var first = WeftClient.object(((List<?>) refusal.problem.get("errors")).get(0));
            return Map.of("status", refusal.status, "code", refusal.code, "pointer", first.get("pointer"));
        }
    }
}
