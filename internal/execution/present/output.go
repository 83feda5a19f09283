package present

import (
	"errors"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/secret/seal"
)

// Unopened says why a sealed output is not shown where others are, or the rest of its record:
// what opens it is not in this process, or nowhere any more. Of any other error it is nil.
func Unopened(err error) *api.OutputProblem {
	if failure, ok := errors.AsType[*fault.Error](err); ok && failure.Code == fault.Unavailable {
		return &api.OutputProblem{Code: failure.Code, Message: failure.Message}
	}
	if errors.Is(err, seal.ErrUnsealable) {
		return &api.OutputProblem{Code: fault.Internal, Message: "The output cannot be opened: it is damaged, or the key that it is sealed under is gone."}
	}
	return nil
}
