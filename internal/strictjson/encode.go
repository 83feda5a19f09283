package strictjson

import (
	"bytes"
	"encoding/json"
)

// Encode writes a value as JSON without a line end. Strings stay as they are:
// `<`, `>` and `&` mean nothing in JSON, and a value that passes through Weft is
// never altered (decisions 8.14).
func Encode(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
