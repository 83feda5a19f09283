package apicall

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/upstream"
	"github.com/weft-automation/weft/internal/strictjson"
)

// How an answer's body is given.
const (
	encodingJSON    = "json"
	encodingText    = "text"
	encodingBase64  = "base64"
	encodingEmpty   = "empty"
	encodingOmitted = "omitted"
)

// render makes the output of an answer.
func render(answer upstream.Answer, mapping map[string]string) (component.Result, error) {
	body, encoding, broken := bodyValue(answer)
	output := map[string]any{
		"status": answer.Status, "headers": headerValue(answer.Header), "body": body, "bodyEncoding": encoding,
	}
	if len(mapping) > 0 {
		if broken != nil {
			return component.Result{}, component.Permanent(component.CodeUpstream, "outputMapping cannot be applied, because the answer's JSON was refused: %s", broken)
		}
		if err := applyMapping(output, body, mapping); err != nil {
			return component.Result{}, err
		}
	}
	result, err := component.Encode(output)
	if err == nil && len(result.Output) > component.MaxOutput && len(mapping) > 0 {
		output["body"], output["bodyEncoding"] = nil, encodingOmitted
		return component.Encode(output)
	}
	return result, err
}

// applyMapping adds the mapped values to the output.
func applyMapping(output map[string]any, body any, mapping map[string]string) error {
	if raw, ok := body.(json.RawMessage); ok {
		decoder := json.NewDecoder(bytes.NewReader(raw))
		decoder.UseNumber()
		if err := decoder.Decode(&body); err != nil {
			return fmt.Errorf("decode body: %w", err)
		}
	}
	root := map[string]any{"status": output["status"], "headers": output["headers"], "body": body}
	for name, path := range mapping {
		value, err := pick(root, body, path)
		if err != nil {
			return component.Permanent(component.CodeInvalidInput, "outputMapping %s: %s", name, err)
		}
		output[name] = value
	}
	return nil
}

// bodyValue is the body as a value. What is said to be JSON but cannot be
// stored as such is given as the text that it is; broken says why.
func bodyValue(answer upstream.Answer) (value any, encoding string, broken error) {
	text := bytes.TrimPrefix(answer.Body, []byte("\xef\xbb\xbf"))
	if len(text) == 0 {
		return nil, encodingEmpty, nil
	}
	if isJSON(answer.Header.Get("Content-Type")) {
		if broken = strictjson.Check(text); broken == nil {
			return json.RawMessage(text), encodingJSON, nil
		}
	}
	if utf8.Valid(text) && !bytes.ContainsRune(text, 0) {
		return string(text), encodingText, broken
	}
	return base64.StdEncoding.EncodeToString(answer.Body), encodingBase64, broken
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && media == "" {
		media, _, _ = strings.Cut(contentType, ";")
		media = strings.ToLower(strings.TrimSpace(media))
	}
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}

func headerValue(header http.Header) map[string]any {
	out := make(map[string]any, len(header))
	for name, values := range header {
		joined := strings.ToValidUTF8(strings.Join(values, ", "), "\uFFFD")
		out[strings.ToLower(name)] = strings.ReplaceAll(joined, "\x00", "")
	}
	return out
}
