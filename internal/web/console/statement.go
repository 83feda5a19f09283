package console

import (
	"net/http"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/web/protocol"
)

// statement is the whole statement of a workspace as a file, which every member may
// have. A link cannot ask the API for it: browsers accept anything.
func (c *console) statement(w http.ResponseWriter, r *http.Request) error {
	ctx, v, err := c.member(r)
	if err != nil {
		return err
	}
	file, err := c.Credits.File(ctx, billing.Statement{WorkspaceID: v.WorkspaceID})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/csv; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="ledger.csv"`)
	parts := protocol.Parts(ctx, w)
	defer parts.Finish()
	if err := file.Write(parts.Context, w, parts.Next); err != nil {
		c.Log.WarnContext(ctx, "a statement breaks off", "error", err)
		panic(http.ErrAbortHandler) // it must not look whole
	}
	return nil
}
