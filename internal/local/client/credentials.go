package client

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/google/uuid"
)

// Credentials are the address of a Weft and a key for it. `weft dev` writes them to a file.
type Credentials struct {
	BaseURL     string    `json:"baseUrl"`
	WorkspaceID uuid.UUID `json:"workspaceId"`
	APIKey      string    `json:"apiKey"`
	APISecret   string    `json:"apiSecret"`

	// Sign-in of the workspace's owner; programs don't need it.
	AdminEmail    string `json:"adminEmail,omitempty"`
	AdminPassword string `json:"adminPassword,omitempty"`

	// IDs of workflows by name: the examples of `weft dev`.
	Workflows map[string]uuid.UUID `json:"workflows,omitempty"`

	// Settings of the `weft dev` that wrote the file: networks beyond public addresses that it may
	// reach, and its delays before callback attempts if they differ from the default.
	AllowNetworks    []netip.Prefix `json:"allowNetworks,omitempty"`
	CallbackSchedule []string       `json:"callbackSchedule,omitempty"`
}

// Reaches reports whether the Weft that wrote the file may reach the address.
func (c Credentials) Reaches(addr netip.Addr) bool {
	return slices.ContainsFunc(c.AllowNetworks, func(network netip.Prefix) bool { return network.Contains(addr.Unmap()) })
}

// ReadCredentials reads a credentials file. Its errors contain nothing of the file.
func ReadCredentials(path string) (Credentials, error) {
	var c Credentials
	text, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("read the credentials: %w", err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("the credentials file %s does not have the form {baseUrl, workspaceId, apiKey, apiSecret}", path)
	}
	return c, nil
}

// String names the workspace and omits the secrets, to keep them out of logs.
func (c Credentials) String() string {
	return fmt.Sprintf("workspace %s at %s", c.WorkspaceID, c.BaseURL)
}

// GoString omits the secrets from %#v.
func (c Credentials) GoString() string { return c.String() }
