package client

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/google/uuid"
)

// Credentials are where a Weft is and what proves who calls it. `weft dev`
// writes them as a file.
type Credentials struct {
	BaseURL     string    `json:"baseUrl"`
	WorkspaceID uuid.UUID `json:"workspaceId"`
	APIKey      string    `json:"apiKey"`
	APISecret   string    `json:"apiSecret"`

	// What the owner of the workspace signs in with; a program does not need it.
	AdminEmail    string `json:"adminEmail,omitempty"`
	AdminPassword string `json:"adminPassword,omitempty"`

	// Workflows by names of the file's own: the examples that `weft dev` brings.
	Workflows map[string]uuid.UUID `json:"workflows,omitempty"`

	// How a `weft dev` was started that wrote the file: the networks that it reaches
	// beyond public addresses, and its delays before callback attempts, if not those
	// of production.
	AllowNetworks    []netip.Prefix `json:"allowNetworks,omitempty"`
	CallbackSchedule []string       `json:"callbackSchedule,omitempty"`
}

// Reaches says whether the Weft that wrote the file was opened to an address.
func (c Credentials) Reaches(addr netip.Addr) bool {
	return slices.ContainsFunc(c.AllowNetworks, func(network netip.Prefix) bool { return network.Contains(addr.Unmap()) })
}

// ReadCredentials reads such a file. Errors never hold what is in it.
func ReadCredentials(path string) (Credentials, error) {
	var c Credentials
	text, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read the credentials: %w", err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("the credentials file %s is not of the form {baseUrl, workspaceId, apiKey, apiSecret}", path)
	}
	return c, nil
}

// String names the workspace and keeps the secrets out of logs.
func (c Credentials) String() string {
	return fmt.Sprintf("workspace %s at %s", c.WorkspaceID, c.BaseURL)
}

// GoString keeps them out of %#v.
func (c Credentials) GoString() string { return c.String() }
