package settings

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/timestamp"
)

// The page warns on a key if no other key stays active. An expiring key doesn't stay active.
func TestLastKeyIgnoresExpiringKeys(t *testing.T) {
	soon := timestamp.Of(time.Now().Add(time.Hour))
	stays, expires := func() api.APIKey { return api.APIKey{ID: uuid.New()} }, func() api.APIKey { return api.APIKey{ID: uuid.New(), ExpiresAt: &soon} }
	for name, tc := range map[string]struct {
		keys []api.APIKey
		more bool
		want []bool
	}{
		"a single key":                  {keys: []api.APIKey{stays()}, want: []bool{true}},
		"a single key that expires":     {keys: []api.APIKey{expires()}, want: []bool{true}},
		"two keys":                      {keys: []api.APIKey{stays(), stays()}, want: []bool{false, false}},
		"a key and the one it replaces": {keys: []api.APIKey{stays(), expires()}, want: []bool{true, false}},
		"two keys and an expiring one":  {keys: []api.APIKey{stays(), expires(), stays()}, want: []bool{false, false, false}},
		"more keys than the page shows": {keys: []api.APIKey{stays()}, more: true, want: []bool{false}},
	} {
		p := settingsPage{Active: api.APIKeyPage{Data: tc.keys, HasMore: tc.more}}
		for i, key := range tc.keys {
			if got := p.LastKey(key); got != tc.want[i] {
				t.Errorf("%s: key %d: LastKey is %v", name, i, got)
			}
		}
	}
}

func TestLastOwnerIsTheOnlyOwner(t *testing.T) {
	owner, admin := api.Member{Role: api.RoleOwner}, api.Member{Role: api.RoleAdmin}
	for name, tc := range map[string]struct {
		members []api.Member
		more    bool
		want    []bool
	}{
		"an owner":                         {members: []api.Member{owner}, want: []bool{true}},
		"an owner and an admin":            {members: []api.Member{owner, admin}, want: []bool{true, false}},
		"two owners":                       {members: []api.Member{owner, owner}, want: []bool{false, false}},
		"more members than the page shows": {members: []api.Member{owner}, more: true, want: []bool{false}},
	} {
		p := settingsPage{Members: api.MemberPage{Data: tc.members, HasMore: tc.more}}
		for i, member := range tc.members {
			if got := p.LastOwner(member); got != tc.want[i] {
				t.Errorf("%s: member %d: LastOwner is %v", name, i, got)
			}
		}
	}
}
