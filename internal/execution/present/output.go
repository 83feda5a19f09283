package present

import (
	"errors"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// Unopened returns why a sealed output cannot be shown: this process lacks the key, or the output
// cannot be decrypted at all. The rest of the record is shown without the output. For any other
// error Unopened returns nil.
func Unopened(err error) *api.OutputProblem {
	if failure, ok := errors.AsType[*fault.Error](err); ok && failure.Code == fault.Unavailable {
		return &api.OutputProblem{Code: failure.Code, Message: failure.Message}
	}
	if errors.Is(err, seal.ErrUnsealable) {
		return &api.OutputProblem{Code: fault.Internal, Message: "The output cannot be decrypted: it is damaged, or its key is lost."}
	}
	return nil
}
