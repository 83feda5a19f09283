package console

import (
	"testing"

	"github.com/weft-automation/weft/internal/contract"
	"github.com/weft-automation/weft/internal/person"
)

// A form may do what its operation may, by whom it may, and nothing is left out.
func TestFormsTakeTheRolesOfTheContract(t *testing.T) {
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
			t.Errorf("%s: role %q, the contract's %s has %q", path, a.role, a.operation, role)
		}
	}
}
