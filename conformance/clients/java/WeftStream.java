import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.util.Set;
import java.util.Timer;
import java.util.TimerTask;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Predicate;

/**
 * Reads event streams of Weft with what the JDK has (17 or later), and WeftSigner beside it: copy both.
 *
 * <p>A connection that breaks, or is silent for longer than three heartbeats, is made again with
 * Last-Event-ID, so that nothing is missed and nothing comes twice.
 *
 * <p>decode: of the data of a message, an event. last: whether its status is final, which COMPLETED, FAILED and
 * CANCELED are. idle: the silence after which a connection counts as lost. attempts: how often in a row it may be,
 * without any event.
 */
public record WeftStream<E>(HttpClient http, WeftSigner signer, Function<String, E> decode, Predicate<E> last, Duration idle, int attempts) {
    public WeftStream(HttpClient http, WeftSigner signer, Function<String, E> decode, Predicate<E> last) {
        this(http, signer, decode, last, Duration.ofSeconds(45), 8);
    }

    /** The service refused the stream: 401, 404, ... */
    public static final class Refused extends IOException {
        private static final long serialVersionUID = 1;
        /** The HTTP status. */
        public final int status;

        Refused(int status) {
            super("the stream is refused with " + status);
            this.status = status;
        }
    }

    // Of one reading: what came so far.
    private static final class Progress {
        String id;
        int lost;
        boolean over;
        volatile long heard;
    }

    /** Gives each event, to the last. lastEventId: null for the present state first, "0" for all that a run has had. */
    public void read(String baseUrl, String path, String lastEventId, Consumer<E> take)
            throws IOException, InterruptedException, GeneralSecurityException {
        var progress = new Progress();
        progress.id = lastEventId;
        while (true) {
            long pause = 0;
            IOException fault = new IOException("the stream ended before the last event");
            // Signed anew for each connection.
            var request = HttpRequest.newBuilder(signer.request(baseUrl, "GET", path, new byte[0]), (name, value) -> true)
                    .timeout(idle).header("Accept", "text/event-stream");
            if (progress.id != null) {
                request.header("Last-Event-ID", progress.id);
            }
            try {
                var answer = http.send(request.build(), HttpResponse.BodyHandlers.ofInputStream());
                try (var body = answer.body()) {
                    if (Set.of(429, 502, 503, 504).contains(answer.statusCode())) {
                        pause = 1000 * answer.headers().firstValue("Retry-After").filter(text -> text.matches("\\d{1,9}")).map(Long::parseLong).orElse(0L);
                        fault = new IOException("the stream is refused with " + answer.statusCode());
                    } else if (answer.statusCode() == 204) { // lastEventId is the final event
                        progress.over = true;
                    } else if (answer.statusCode() != 200) {
                        throw new Refused(answer.statusCode());
                    } else {
                        messages(body, progress, take);
                    }
                }
            } catch (Refused refused) {
                throw refused;
            } catch (IOException broken) {
                fault = broken;
            }
            if (progress.over) {
                return;
            }
            if (++progress.lost >= attempts) {
                throw fault;
            }
            Thread.sleep(Math.max(pause, Math.min(250L << (progress.lost - 1), 10_000)));
        }
    }

    // Comments (the heartbeat :ping) and messages without data are passed over, and so is one that was cut off.
    private void messages(InputStream body, Progress progress, Consumer<E> take) throws IOException {
        progress.heard = System.nanoTime();
        var watch = new Timer(true);
        long often = Math.max(idle.toMillis() / 4, 1);
        watch.schedule(new TimerTask() {
            @Override
            public void run() {
                if (System.nanoTime() - progress.heard > idle.toNanos()) {
                    try {
                        body.close(); // ends the reading below
                    } catch (IOException ended) {
                        cancel();
                    }
                }
            }
        }, often, often);
        try {
            var lines = new BufferedReader(new InputStreamReader(body, StandardCharsets.UTF_8));
            String id = null;
            var data = new StringBuilder();
            for (String line; (line = lines.readLine()) != null; ) {
                progress.heard = System.nanoTime();
                int colon = line.indexOf(':');
                String field = colon < 0 ? line : line.substring(0, colon);
                String value = colon < 0 ? "" : line.substring(colon + 1).replaceFirst("^ ", "");
                if (field.equals("data")) {
                    data.append(value).append('\n');
                } else if (field.equals("id") && value.indexOf('\0') < 0) {
                    id = value;
                } else if (line.isEmpty()) {
                    String text = data.toString();
                    data.setLength(0);
                    if (!text.isBlank() && given(id, text, progress, take)) {
                        return;
                    }
                }
            }
        } finally {
            watch.cancel();
        }
    }

    private boolean given(String id, String text, Progress progress, Consumer<E> take) {
        E event = decode.apply(text);
        progress.over = last.test(event);
        if (progress.over || id == null || !id.equals(progress.id)) {
            progress.id = id == null ? progress.id : id;
            progress.lost = 0;
            take.accept(event);
        }
        return progress.over;
    }
}
