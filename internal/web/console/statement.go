package console

import (
	"net/http"

	"github.com/weft-automation/weft/internal/account/billing"
	"github.com/weft-automation/weft/internal/web/protocol"
)

// statement sends the whole ledger of a workspace as a CSV file, to any member. The page can't
// link to the API instead, because for a link browsers don't send Accept: text/csv.
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
		c.Log.WarnContext(ctx, "statement cut off", "error", err)
		panic(http.ErrAbortHandler) // so that the client notices that it is incomplete
	}
	return nil
}
