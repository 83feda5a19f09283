import java.io.IOException;
import java.math.BigDecimal;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * A client of Weft by hand, on the JDK's own (17 or later): the operations that most programs need. Copy it
 * with WeftSigner, WeftStream and WeftJson. It is safe for concurrent use.
 */
public final class WeftClient {
    private static final System.Logger LOG = System.getLogger("weft");
    private static final Set<String> FINAL = Set.of("COMPLETED", "FAILED", "CANCELED");

    /** An execution: CREATED, EXECUTING, COMPLETED or FAILED. raw has all of it. */
    public record Execution(String id, String module, String status, Object output, Object error, BigDecimal totalUsage, Map<String, Object> raw) {
        static Execution of(Map<String, Object> raw) {
            return new Execution((String) raw.get("id"), (String) raw.get("module"), (String) raw.get("status"), raw.get("output"), raw.get("error"), (BigDecimal) raw.get("totalUsage"), raw);
        }

        public boolean isFinal() {
            return FINAL.contains(status);
        }
    }

    /** A run of a workflow: CREATED, EXECUTING, COMPLETED, FAILED or CANCELED. raw has all of it. */
    public record Run(String id, String status, Object output, Object error, BigDecimal totalUsage, Map<String, Object> raw) {
        static Run of(Map<String, Object> raw) {
            return new Run((String) raw.get("id"), (String) raw.get("status"), raw.get("output"), raw.get("error"), (BigDecimal) raw.get("totalUsage"), raw);
        }
    }

    /** An event of an execution. */
    public record ExecutionEvent(String id, String module, String status, Object output, Object error, BigDecimal totalUsage, String timestamp) {
        static ExecutionEvent of(Map<String, Object> raw) {
            return new ExecutionEvent((String) raw.get("id"), (String) raw.get("module"), (String) raw.get("status"), raw.get("output"), raw.get("error"), (BigDecimal) raw.get("totalUsage"), (String) raw.get("timestamp"));
        }
    }

    /** An event of a run. Any member of its output may be absent. */
    public record RunEvent(String id, long seq, String status, Map<String, Object> output, Object error, String timestamp) {
        static RunEvent of(Map<String, Object> raw) {
            return new RunEvent((String) raw.get("id"), ((BigDecimal) raw.get("seq")).longValueExact(), (String) raw.get("status"), object(raw.get("output")), raw.get("error"), (String) raw.get("timestamp"));
        }
    }

    /**
     * An answer that is no success. code is stable; problem is all that the service said. The message ends with
     * the address that explains the causes.
     */
    public static final class Refusal extends IOException {
        private static final long serialVersionUID = 1;
        public final int status;
        public final String code;
        public final transient Map<String, Object> problem;

        Refusal(int status, Map<String, Object> problem, String baseUrl) {
            super(status + " " + problem.get("code") + ": " + problem.get("detail")
                    + (problem.get("docs") == null ? "" : " See " + baseUrl + problem.get("docs")));
            this.status = status;
            this.code = (String) problem.get("code");
            this.problem = problem;
        }
    }

    private final HttpClient http = HttpClient.newHttpClient();
    private final String baseUrl;
    private final WeftSigner signer;

    public WeftClient(String baseUrl, String apiKey, String apiSecret) throws GeneralSecurityException {
        this.baseUrl = baseUrl;
        this.signer = new WeftSigner(apiKey, apiSecret);
    }

    /**
     * Signs, sends and decodes; body and idempotencyKey may be null. What a limit refuses is sent again once
     * Retry-After is over, five times in all. What was lost on the way may have been done: send it again with
     * the same idempotencyKey.
     */
    public Map<String, Object> call(String method, String path, Object body, String idempotencyKey)
            throws IOException, InterruptedException, GeneralSecurityException {
        byte[] raw = body == null ? new byte[0] : WeftJson.write(body).getBytes(StandardCharsets.UTF_8);
        for (int attempt = 1; ; attempt++) {
            var request = HttpRequest.newBuilder(signer.request(baseUrl, method, path, raw), (name, value) -> true).timeout(Duration.ofSeconds(60));
            if (idempotencyKey != null) {
                request.header("Idempotency-Key", idempotencyKey);
            }
            var answer = http.send(request.build(), HttpResponse.BodyHandlers.ofString());
            answer.headers().firstValue("Weft-Ignored").ifPresent(names ->
                    LOG.log(System.Logger.Level.WARNING, method + " " + path + ": Weft does not know and ignored " + names));
            if (answer.statusCode() == 200) {
                return object(WeftJson.read(answer.body()));
            }
            // A 503 without Retry-After may have taken effect.
            boolean repeatable = answer.statusCode() == 429
                    || answer.statusCode() == 503 && answer.headers().firstValue("Retry-After").isPresent();
            if (!repeatable || attempt == 5) {
                throw new Refusal(answer.statusCode(), problem(answer.body()), baseUrl);
            }
            Thread.sleep(1000 * answer.headers().firstValue("Retry-After").filter(text -> text.matches("\\d{1,9}")).map(Long::parseLong).orElse(1L));
        }
    }

    /** Executes a component. more: waitForMs, attempts, callbackUrl, callbackSecret, callbackHeaders, ... */
    public Execution execute(String module, Map<String, ?> input, Map<String, ?> config, Map<String, ?> more, String idempotencyKey)
            throws IOException, InterruptedException, GeneralSecurityException {
        Map<String, Object> body = new LinkedHashMap<>(more);
        body.put("module", module);
        body.put("input", input);
        body.put("config", config);
        return Execution.of(call("POST", "/v1/sdk/components", body, idempotencyKey));
    }

    public Execution execution(String id) throws IOException, InterruptedException, GeneralSecurityException {
        return Execution.of(call("GET", "/v1/sdk/components/executions/" + part(id), null, null));
    }

    /** Gives each event of an execution, to the last. */
    public void executionEvents(String id, Consumer<ExecutionEvent> take) throws IOException, InterruptedException, GeneralSecurityException {
        stream(ExecutionEvent::of, ExecutionEvent::status).read(baseUrl, "/v1/sdk/components/executions/" + part(id) + "/stream", null, take);
    }

    /** Begins a run and gives its id. more: input, metadata, maxCredits, ... */
    public String trigger(String workflowId, Map<String, ?> more, String idempotencyKey) throws IOException, InterruptedException, GeneralSecurityException {
        return (String) call("POST", "/v1/sdk/workflows/" + part(workflowId), more, idempotencyKey).get("runId");
    }

    public Run run(String id) throws IOException, InterruptedException, GeneralSecurityException {
        return Run.of(call("GET", "/v1/sdk/workflows/executions/" + part(id), null, null));
    }

    /** Gives each event of a run whose seq is beyond after, to the last; 0 for all that the run has had. */
    public void runEvents(String id, long after, Consumer<RunEvent> take) throws IOException, InterruptedException, GeneralSecurityException {
        stream(RunEvent::of, RunEvent::status).read(baseUrl, "/v1/sdk/workflows/executions/" + part(id) + "/stream", Long.toString(after), take);
    }

    private <E> WeftStream<E> stream(Function<Map<String, Object>, E> of, Function<E, String> status) {
        return new WeftStream<>(http, signer, text -> of.apply(object(WeftJson.read(text))), event -> FINAL.contains(status.apply(event)));
    }

    /** A value that is an object. */
    @SuppressWarnings("unchecked")
    public static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }

    private static String part(String id) {
        return URLEncoder.encode(id, StandardCharsets.UTF_8).replace("+", "%20");
    }

    private static Map<String, Object> problem(String body) {
        try {
            return WeftJson.read(body) instanceof Map<?, ?> problem ? object(problem) : Map.of();
        } catch (IllegalArgumentException other) { // a proxy on the way answers as it likes
            return Map.of();
        }
    }
}
