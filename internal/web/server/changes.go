package server

import (
	"context"

	"github.com/weft-automation/weft/gen/api"
	"github.com/weft-automation/weft/internal/kit/strictjson"
	"github.com/weft-automation/weft/internal/platform/sse"
)

// StreamWorkspace streams which runs and executions of the workspace change.
func (s *Server) StreamWorkspace(ctx context.Context, _ api.StreamWorkspaceRequestObject) (api.StreamWorkspaceResponseObject, error) {
	call := callOf(ctx)
	if call.head {
		return response(streamHead), nil
	}
	ctx, stop, err := s.streams.open(ctx)
	if err != nil {
		return nil, err
	}
	source := sse.Source[api.WorkspaceEvent]{Events: s.Changes.Watch(ctx, call.principal.WorkspaceID), EncodeFunc: encodeWorkspaceEvent}
	return stream(ctx, stop, "workspace", s.streams.of(call.principal), source), nil
}

// encodeWorkspaceEvent returns the SSE event of a change. Only a resync has a name, so that a plain
// onmessage listener receives the changes.
func encodeWorkspaceEvent(event api.WorkspaceEvent) (sse.Event, error) {
	data, err := strictjson.Encode(event)
	frame := sse.Event{Data: data}
	if event.Kind == nil {
		frame.Name = "resync"
	}
	return frame, err
}
