package console

import (
	"testing"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/web/contract"
)

// Every form has the role of its operation in the contract.
func TestFormsHaveRolesOfContract(t *testing.T) {
	document, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	roles := map[string]person.Role{}
	for _, operation := range document.Operations {
		roles[operation.ID] = person.Role(operation.Role)
	}
	operations := map[string]string{"playground": callOperation}
	for path, a := range runActions {
		operations["runs/"+path] = a.operation
	}
	for path, a := range workflowActions {
		operations["workflows/"+path] = a.operation
	}
	for path, operation := range operations {
		if role := roles[operation]; role != person.Editor {
			t.Errorf("%s: role editor, but operation %s in the contract has %q", path, operation, role)
		}
	}
}
