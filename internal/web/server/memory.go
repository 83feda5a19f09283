package server

import (
	"net/netip"

	"github.com/google/uuid"

	"github.com/weft-automation/weft/internal/kit/fault"
	"github.com/weft-automation/weft/internal/platform/budget"
	"github.com/weft-automation/weft/internal/platform/throttle"
)

// DefaultMemory is how many bytes the bodies of requests and the answers in flight may hold.
const DefaultMemory = 128 << 20

// uncounted is what every request may hold. A connection costs about as much, and
// connections have their own bound. So small requests are accepted even when the budget
// is used up.
const uncounted = 16 << 10

// Memory bounds the bytes of requests and answers that are held at the same time.
type Memory struct {
	unknown *budget.Budget[netip.Addr] // of callers that are not authenticated, by address
	known   *budget.Budget[uuid.UUID]  // of authenticated callers, by workspace
}

// NewMemory divides total: a quarter is for callers that are not authenticated, of which one
// address may hold a quarter of what other addresses leave free. The rest is for workspaces,
// of which one may hold a third of what other workspaces leave free.
func NewMemory(total int64) *Memory {
	unknown, known := total/4, total-total/4
	return &Memory{unknown: budget.New[netip.Addr](unknown, unknown/4), known: budget.New[uuid.UUID](known, known/3)}
}

// Held returns the bytes that requests and answers hold for callers that are not
// authenticated, and for workspaces.
func (m *Memory) Held() (unknown, known int64) { return m.unknown.Held(), m.known.Held() }

// hold is what one request holds of Memory.
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

// add counts n more bytes, however many are held.
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

// move counts what the request holds for the workspace of its caller from now on, or
// returns UNAVAILABLE.
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
		"Too many bytes of requests from your address, or from all addresses, are being received. Try again after the time in Retry-After, with fewer large requests at the same time.")
	errWorkspaceMemory = fault.New(fault.Unavailable,
		"Requests and answers in flight of this workspace, or of all workspaces, hold too many bytes. Try again after the time in Retry-After, with fewer large requests at the same time.")
)
