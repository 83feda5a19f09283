// Package modules lists the families of the component library, so that all families are
// registered in one place.
//
// It contains no modules. To add a module, add a line to its family's table. To add a family, add
// a line to the list in this package.
package modules

import (
	"slices"

	"github.com/weft-automation/weft/internal/component"
	"github.com/weft-automation/weft/internal/component/modules/apicall"
	"github.com/weft-automation/weft/internal/component/modules/evm"
	"github.com/weft-automation/weft/internal/component/modules/logic"
	"github.com/weft-automation/weft/internal/component/modules/utility"
	"github.com/weft-automation/weft/internal/platform/egress"
)

// All returns every module of the library. Modules connect to the network only through the guard.
func All(guard *egress.Guard) []component.Module {
	return slices.Concat(
		utility.Modules(),
		apicall.Modules(guard),
		evm.Modules(guard),
		logic.Modules(),
	)
}
