package settings

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
	for path, a := range actions {
		if role, ok := roles[a.operation]; !ok || role != a.role || role == "" {
			t.Errorf("%s: role %q, but operation %s in the contract has %q", path, a.role, a.operation, role)
		}
	}
}
