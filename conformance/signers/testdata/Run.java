import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/** Signs what comes by lines: method, path, timestamp and body in base64, with tabs between. */
public final class Run {
    public static void main(String[] arguments) throws Exception {
        var weft = new WeftSigner("ws_none", System.getenv("WEFT_API_SECRET"));
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split("\t", -1);
            System.out.println(weft.signature(parts[0], parts[1], parts[2], Base64.getDecoder().decode(parts[3])));
        }
    }
}
