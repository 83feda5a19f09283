import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Verifies callbacks of Weft with what the JDK has (17 or later). This file stands alone: copy it.
 *
 * <pre>{@code
 * WeftCallback.verify(secret, exchange.getRequestHeaders(), body, Instant.now()); // throws Forged
 * }</pre>
 */
public final class WeftCallback {
    /** The callback is not what Weft sent, or nobody can tell. */
    public static final class Forged extends Exception {
        private static final long serialVersionUID = 1;

        Forged(String message) {
            super(message);
        }
    }

    /** How far webhook-timestamp may be from now. */
    public static final Duration TOLERANCE = Duration.ofMinutes(5);

    private WeftCallback() {}

    /**
     * Throws Forged unless the callback was signed with this callbackSecret. The body is the raw bytes as
     * they came; what was parsed and written again is something else.
     *
     * <p>Weft signs twice: X-Svc-Signature over the body, and by Standard Webhooks over id, time and body.
     * Each that is there has to be right, and the first has to be there. To refuse old deliveries that
     * somebody sends again, insist on webhook-timestamp, and remember webhook-id.
     */
    public static void verify(String secret, Map<String, List<String>> headers, byte[] body, Instant now)
            throws Forged, GeneralSecurityException {
        byte[] key = secret.getBytes(StandardCharsets.UTF_8);
        String digest = "hmac-sha256-v1=" + HexFormat.of().formatHex(hmac(key, body));
        if (!same(header(headers, "X-Svc-Signature"), digest)) {
            throw new Forged("X-Svc-Signature is not that of this body under this secret");
        }
        String signatures = header(headers, "Webhook-Signature");
        if (signatures == null) {
            return;
        }
        String id = header(headers, "Webhook-Id");
        String timestamp = header(headers, "Webhook-Timestamp");
        if (timestamp == null || !timestamp.matches("[0-9]{1,11}")) {
            throw new Forged("webhook-timestamp is not in seconds");
        }
        if (Math.abs(now.getEpochSecond() - Long.parseLong(timestamp)) > TOLERANCE.toSeconds()) {
            throw new Forged("webhook-timestamp is too far from now");
        }
        byte[] head = (id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8);
        byte[] message = new byte[head.length + body.length];
        System.arraycopy(head, 0, message, 0, head.length);
        System.arraycopy(body, 0, message, head.length, body.length);
        String signature = "v1," + Base64.getEncoder().encodeToString(hmac(webhookKey(secret), message));
        boolean right = false;
        for (String given : signatures.split(" ")) {
            right |= same(given, signature);
        }
        if (!right) {
            throw new Forged("webhook-signature is not that of this delivery under this secret");
        }
    }

    /** Compares in a time that does not tell how much was right. */
    private static boolean same(String given, String right) {
        return given != null && MessageDigest.isEqual(given.getBytes(StandardCharsets.UTF_8), right.getBytes(StandardCharsets.UTF_8));
    }

    private static byte[] hmac(byte[] key, byte[] message) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(message);
    }

    private static String header(Map<String, List<String>> headers, String name) {
        return headers.entrySet().stream().filter(entry -> name.equalsIgnoreCase(entry.getKey()) && !entry.getValue().isEmpty())
                .map(entry -> entry.getValue().get(0)).findFirst().orElse(null);
    }

    /** A secret written whsec_BASE64 counts as its bytes in Standard Webhooks. */
    private static byte[] webhookKey(String secret) {
        if (secret.matches("whsec_([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?") && secret.length() > 6) {
            return Base64.getDecoder().decode(secret.substring(6));
        }
        return secret.getBytes(StandardCharsets.UTF_8);
    }
}
