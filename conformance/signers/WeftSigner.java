import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.net.http.HttpRequest;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyFactory;
import java.security.PrivateKey;
import java.security.Signature;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;

/**
 * Signs requests to Weft with what the JDK has (15 or later). This file stands alone: copy it, and
 * put it into a package of yours. It is safe for concurrent use.
 *
 * <pre>{@code
 * var weft = new WeftSigner(apiKey, apiSecret);
 * var request = weft.request(baseUrl, "POST", "/v1/sdk/components", json.getBytes(StandardCharsets.UTF_8));
 * var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
 * }</pre>
 *
 * <p>The base URL may have a path, such as https://example.com/weft, if a proxy removes that path before
 * the request reaches Weft. It is sent, but not signed.
 */
public final class WeftSigner {
    private static final byte[] EMPTY = "{}".getBytes(StandardCharsets.UTF_8);

    private final String apiKey;
    private final PrivateKey secret;

    /** The apiSecret is base64 of the PKCS#8 form of an Ed25519 key. */
    public WeftSigner(String apiKey, String apiSecret) throws GeneralSecurityException {
        this.apiKey = apiKey;
        byte[] der = Base64.getDecoder().decode(apiSecret);
        this.secret = KeyFactory.getInstance("Ed25519").generatePrivate(new PKCS8EncodedKeySpec(der));
    }

    /**
     * The bytes that are signed. The path is everything after the host, the query included, as Weft
     * receives it; the timestamp is whole seconds; an empty body counts as {}.
     */
    public static byte[] message(String method, String path, String timestamp, byte[] body) {
        var out = new ByteArrayOutputStream();
        out.writeBytes((method + "|" + path + "|" + timestamp + "|").getBytes(StandardCharsets.UTF_8));
        out.writeBytes(body.length == 0 ? EMPTY : body);
        return out.toByteArray();
    }

    /** The value of X-Sdk-Signature. */
    public String signature(String method, String path, String timestamp, byte[] body) throws GeneralSecurityException {
        Signature ed25519 = Signature.getInstance("Ed25519");
        ed25519.initSign(secret);
        ed25519.update(message(method, path, timestamp, body));
        return Base64.getEncoder().encodeToString(ed25519.sign());
    }

    /** A signed request, to be sent at once. The body is sent as it is: serialize it once. */
    public HttpRequest request(String baseUrl, String method, String path, byte[] body) throws GeneralSecurityException {
        String base = baseUrl.replaceAll("/$", "");
        URI uri = URI.create(base + path);
        String received = uri.getRawPath().substring(URI.create(base).getRawPath().length()) + (uri.getRawQuery() == null ? "" : "?" + uri.getRawQuery());
        String timestamp = Long.toString(System.currentTimeMillis() / 1000);
        var request = HttpRequest.newBuilder(uri)
                .method(method, body.length == 0 ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofByteArray(body))
                .header("X-Api-Key", apiKey)
                .header("X-Sdk-Timestamp", timestamp)
                .header("X-Sdk-Signature", signature(method, received, timestamp, body));
        if (body.length > 0) {
            request.header("Content-Type", "application/json");
        }
        return request.build();
    }
}
