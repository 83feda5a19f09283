package server

import (
	"net/netip"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/budget"
	"github.com/weft-automation/weft/internal/platform/throttle"
)

// DefaultMemory is how many bytes request bodies and responses in flight may hold.
const DefaultMemory = 128 << 20

// uncounted is the number of bytes that a request may hold without being counted. A connection
// needs about the same amount of memory, and connections have a separate limit. Therefore small
// requests are accepted even when the budget is exhausted.
const uncounted = 16 << 10

// Memory bounds the bytes that requests and responses hold at the same time.
type Memory struct {
	unknown *budget.Budget[netip.Addr] // unauthenticated callers, by address
	known   *budget.Budget[uuid.UUID]  // authenticated callers, by workspace
}

// NewMemory returns a Memory of total bytes. A quarter is for unauthenticated callers, and one
// address may hold a quarter of what other addresses leave free. The rest is for workspaces, and
// one workspace may hold a third of what other workspaces leave free.
func NewMemory(total int64) *Memory {
	unknown, known := total/4, total-total/4
	return &Memory{unknown: budget.New[netip.Addr](unknown, unknown/4), known: budget.New[uuid.UUID](known, known/3)}
}

// Held returns the bytes that requests and responses hold, of unauthenticated callers and of
// workspaces.
func (m *Memory) Held() (unknown, known int64) { return m.unknown.Held(), m.known.Held() }

// hold counts the bytes that one request holds of Memory.
type hold struct {
	memory    *Memory
	client    netip.Addr
	workspace uuid.UUID // zero until the caller is authenticated
	bytes     int64
}

func (m *Memory) hold(client netip.Addr) *hold {
	return &hold{memory: m, client: throttle.Subscriber(client)}
}

// grow reserves n more bytes, or returns UNAVAILABLE.
func (h *hold) grow(n int64) error {
	if h.workspace != uuid.Nil {
		if !h.memory.known.Reserve(h.workspace, n) {
			return errWorkspaceMemory
		}
	} else if !h.memory.unknown.Reserve(h.client, n) {
		return errAddressMemory
	}
	h.bytes += n
	return nil
}

// add counts n more bytes, even beyond the limits.
func (h *hold) add(n int64) {
	if h.workspace != uuid.Nil {
		h.memory.known.Add(h.workspace, n)
	} else {
		h.memory.unknown.Add(h.client, n)
	}
	h.bytes += n
}

// full returns UNAVAILABLE if the workspace of the caller holds its whole share.
func (h *hold) full() error {
	if h.workspace != uuid.Nil && h.memory.known.Full(h.workspace) {
		return errWorkspaceMemory
	}
	return nil
}

// move transfers the held bytes from the client address to the workspace of the authenticated
// caller. It returns UNAVAILABLE if the bytes exceed the workspace's limit.
func (h *hold) move(workspace uuid.UUID) error {
	if h.workspace == workspace {
		return nil
	}
	if h.bytes > 0 && !h.memory.known.Reserve(workspace, h.bytes) {
		return errWorkspaceMemory
	}
	h.memory.unknown.Release(h.client, h.bytes)
	h.workspace = workspace
	return nil
}

// shrink releases n bytes.
func (h *hold) shrink(n int64) {
	h.bytes -= n
	if h.workspace != uuid.Nil {
		h.memory.known.Release(h.workspace, n)
	} else {
		h.memory.unknown.Release(h.client, n)
	}
}

var (
	errAddressMemory = fault.New(fault.Unavailable,
		"Too many bytes of requests from your address, or from all addresses, are in flight. Retry after the time in Retry-After, and send fewer large requests at the same time.")
	errWorkspaceMemory = fault.New(fault.Unavailable,
		"Too many bytes of requests and responses of this workspace, or of all workspaces, are in flight. Retry after the time in Retry-After, and send fewer large requests at the same time.")
)
