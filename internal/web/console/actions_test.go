package console

import (
	"cmp"
	"testing"

	"github.com/weft-automation/weft/internal/account/person"
	"github.com/weft-automation/weft/internal/web/contract"
)

// Every form has the role and the cost of its operation in the contract.
func TestFormsHaveRolesAndCostsOfContract(t *testing.T) {
	document, err := contract.Load()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]*contract.Operation{}
	for _, operation := range document.Operations {
		known[operation.ID] = operation
	}
	operations := map[string]string{"playground": callOperation, "executions/replay": "replayComponentCallback", "executions/cancel": "cancelComponentExecution"}
	for path, a := range runActions {
		operations["runs/"+path] = a.operation
	}
	for path, a := range workflowActions {
		operations["workflows/"+path] = a.operation
	}
	for path, operation := range operations {
		o := known[operation]
		if o == nil || person.Role(o.Role) != person.Editor || o.Cost != cmp.Or(costs[operation], 1) {
			t.Errorf("%s: role editor and cost %d, but operation %s in the contract has %+v", path, cmp.Or(costs[operation], 1), operation, o)
		}
	}
}
