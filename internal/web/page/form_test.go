package page

import (
	"encoding/binary"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
)

// Lists are sorted by ID, and users can't choose the position of a resource.
func TestFormIDIsRecent(t *testing.T) {
	at := func(ago time.Duration) uuid.UUID {
		id := uuid.Must(uuid.NewV7())
		milliseconds := uint64(time.Now().Add(-ago).UnixMilli())
		binary.BigEndian.PutUint64(id[:8], milliseconds<<16|uint64(binary.BigEndian.Uint16(id[6:8])))
		return id
	}
	for id, taken := range map[uuid.UUID]bool{
		at(0): true, at(23 * time.Hour): true, at(-23 * time.Hour): true,
		at(25 * time.Hour): false, at(-25 * time.Hour): false,
		uuid.MustParse("00000000-0000-7000-8000-000000000000"): false,
		uuid.MustParse("ffffffff-ffff-7fff-bfff-ffffffffffff"): false,
		uuid.New(): false,
	} {
		want := uuid.Nil
		if taken {
			want = id
		}
		if got := FormID(&http.Request{Method: http.MethodPost, PostForm: url.Values{"id": {id.String()}}}); got != want {
			t.Errorf("%s: got %s", id, got)
		}
	}
}
