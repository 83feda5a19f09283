package contract

import (
	"encoding/json"
	"fmt"

	"github.com/weft-automation/weft/internal/kit/strictjson"
)

// CheckGiven checks values that did not arrive as the body of a request, such as those of a form, by
// the schema of an operation's body. It returns the INVALID_INPUT that a request with these values
// would get.
func CheckGiven(operation string, body any) error {
	document, err := Load()
	if err != nil {
		return err
	}
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode the body of %s: %w", operation, err)
	}
	if err := strictjson.CheckObject(data); err != nil {
		return err
	}
	for _, one := range document.Operations {
		if one.ID == operation {
			_, err = one.CheckBody(data, nil)
			return err
		}
	}
	return fmt.Errorf("the contract has no operation %s", operation)
}
