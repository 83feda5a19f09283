import java.net.http.HttpClient;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;

/** Sends two signed requests and prints what is answered, a line each. */
public final class Live {
    public static void main(String[] arguments) throws Exception {
        var weft = new WeftSigner(System.getenv("WEFT_API_KEY"), System.getenv("WEFT_API_SECRET"));
        var client = HttpClient.newHttpClient();
        String body = "{\"module\":\"HASH\",\"input\":{\"data\":\"\u00e9\"},\"config\":{},\"waitForMs\":15000}";
        for (String[] call : new String[][] {{"GET", "/v1/sdk/components?limit=1#x", ""}, {"POST", "/v1/sdk/components", body}}) {
            var request = weft.request(System.getenv("WEFT_URL"), call[0], call[1], call[2].getBytes(StandardCharsets.UTF_8));
            var answer = client.send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.statusCode() + " " + answer.body().trim());
        }
    }
}
