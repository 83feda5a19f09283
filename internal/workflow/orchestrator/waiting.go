package orchestrator

import (
	"github.com/weft-automation/weft/gen/db"
)

// waiting is an unfinished stage, with the end of what it waits for.
type waiting = db.StageListWaitingRow
