package conformance

import (
	"strings"
	"time"
)

// framing is a fault in the frames of a stream.
type framing = func(b *breaker, c *call, in <-chan string, out func(string))

// of limits a framing to one kind of stream: those of component executions, or those of workflow
// runs.
func of(kind string, wrong framing) framing {
	return func(b *breaker, c *call, in <-chan string, out func(string)) {
		if !strings.Contains(c.target, "/"+kind+"/executions/") {
			wrong = as
		}
		wrong(b, c, in, out)
	}
}

// as does not change the frames.
func as(_ *breaker, _ *call, in <-chan string, out func(string)) {
	for frame := range in {
		out(frame)
	}
}

func ping(frame string) bool { return strings.HasPrefix(frame, ":ping") }

// final reports whether a frame is the terminal event.
func final(frame string) bool {
	return !ping(frame) && (strings.Contains(frame, `"status":"COMPLETED"`) || strings.Contains(frame, `"status":"FAILED"`) || strings.Contains(frame, `"status":"CANCELED"`)) &&
		!strings.Contains(frame, `"status":"EXECUTING"`)
}

// each replaces every frame with the result of a change.
func each(which func(string) bool, change func(string) []string) framing {
	return func(b *breaker, _ *call, in <-chan string, out func(string)) {
		for frame := range in {
			if !which(frame) {
				out(frame)
				continue
			}
			b.wrong()
			for _, changed := range change(frame) {
				out(changed)
			}
		}
	}
}

func twice(frame string) []string { return []string{frame, frame} }
func never(string) []string       { return nil }

// late delays frames while the reader is connected.
func late(which func(string) bool, by time.Duration) framing {
	return func(b *breaker, c *call, in <-chan string, out func(string)) {
		for frame := range in {
			if which(frame) {
				b.wrong()
				select {
				case <-time.After(by): // the injected fault is this delay
				case <-c.Context().Done():
				}
			}
			out(frame)
		}
	}
}

func event(frame string) bool    { return !ping(frame) }
func underway(frame string) bool { return !ping(frame) && !final(frame) }

// open keeps a stream open after its end.
func unending(b *breaker, c *call, in <-chan string, out func(string)) {
	as(b, c, in, out)
	b.wrong()
	<-c.Context().Done()
}

// swapped swaps the third and the fourth event.
func swapped(b *breaker, _ *call, in <-chan string, out func(string)) {
	n, kept := 0, ""
	for frame := range in {
		if event(frame) {
			n++
		}
		switch {
		case event(frame) && n == 3 && !final(frame):
			kept = frame
			continue
		case event(frame) && kept != "":
			b.wrong()
			out(frame)
			out(kept)
			kept = ""
			continue
		}
		out(frame)
	}
}

// nth selects the event with this number.
func nth(n int, change func(string) []string) framing {
	return func(b *breaker, c *call, in <-chan string, out func(string)) {
		seen := 0
		each(func(frame string) bool {
			if ping(frame) {
				return false
			}
			seen++
			return seen == n
		}, change)(b, c, in, out)
	}
}

// started delays the event that the execution has started.
const started = `"status":"EXECUTING"`

var streamBreakages = []breakage{
	{name: "the last event comes twice", part: "D4.5.order", stream: of("components", each(final, twice))},
	{name: "the last event is missing", part: "4.3.single", stream: of("components", each(final, never))},
	{name: "the last event is missing where all is over", part: "4.3.close", stream: of("components", each(final, never))},
	{name: "a progress event comes twice", part: "D4.5.order", stream: of("components", each(underway, twice))},
	{name: "no event comes at connect", part: "D4.5.connect", slow: true, stream: of("components", each(underway, never))},
	{name: "an event comes after the last", part: "6.2.close", stream: of("components", each(final, func(frame string) []string {
		return []string{frame, "event: progress\n" + strings.NewReplacer(`"status":"COMPLETED"`, started, `"status":"FAILED"`, started).Replace(frame)}
	}))},
	{name: "CREATED comes after EXECUTING", part: "D4.5.order", stream: of("components", each(underway, func(frame string) []string {
		return []string{frame, strings.Replace(frame, started, `"status":"CREATED"`, 1)}
	}))},
	{name: "the present state comes late", part: "D4.5.connect", slow: true, stream: of("components", late(underway, 2*time.Second))},
	{name: "a progress event has no name", part: "D4.5.names", stream: of("components", each(underway, func(frame string) []string {
		return []string{strings.Replace(frame, "event: progress\n", "", 1)}
	}))},
	{name: "an event has no id", part: "D4.5.id", stream: of("components", each(event, func(frame string) []string {
		return []string{strings.Replace(frame, "\nid: ", "\nretry: 3", 1)}
	}))},
	{name: "the last event has the id of the one before", part: "D4.5.id", stream: of("components", each(final, func(frame string) []string {
		return []string{strings.Replace(frame, "id: 3\n", "id: 2\n", 1)}
	}))},
	{name: "a client that has the last event hears it again", part: "D4.5.over", do: altered(func(c *call) bool {
		ended := c.header.Get("Last-Event-Id") == "3" && strings.HasSuffix(c.target, "/stream")
		if ended {
			c.header.Del("Last-Event-Id")
		}
		return ended
	})},
	{name: "the last event has a name", part: "4.3.single", stream: of("components", each(final, func(frame string) []string {
		return []string{"event: progress\n" + frame}
	}))},
	{name: "an event has two lines of data", part: "6.2.fields", stream: of("components", each(final, func(frame string) []string {
		return []string{strings.Replace(frame, `,"module"`, "\ndata: ,\"module\"", 1)}
	}))},
	{name: "a stream stays open after its end", part: "4.3.close", slow: true, stream: of("components", unending)},
	{name: "a stream of what failed stays open", part: "6.2.close", slow: true, stream: of("components", unending)},
	{name: "a stream ends early", part: "4.3", stream: of("components", func(b *breaker, _ *call, in <-chan string, out func(string)) {
		for frame := range in {
			if out(frame); event(frame) && !final(frame) {
				b.wrong()
				return
			}
		}
	})},
	{name: "a stream says another status than the record", part: "3.1.completed", stream: of("components", each(final, func(frame string) []string {
		return []string{strings.Replace(frame, `"status":"COMPLETED"`, `"status":"FAILED"`, 1)}
	}))},
	{name: "the last event comes ten seconds late", part: "4.3", slow: true, stream: of("components", late(final, 10*time.Second))},
	{name: "only the first heartbeat comes", part: "8.6.heartbeat", long: true, stream: of("components", pings(func(n int) bool { return n > 1 }, never))},
	{name: "the third heartbeat comes twice", part: "8.6.heartbeat", long: true, stream: of("components", pings(func(n int) bool { return n == 3 }, twice))},
	{name: "no heartbeat comes", part: "8.6.heartbeat", slow: true, stream: of("components", each(ping, never))},
	{name: "each heartbeat comes twice", part: "8.6.heartbeat", slow: true, stream: of("components", each(ping, twice))},
	{name: "a heartbeat is five seconds late", part: "8.6.heartbeat", slow: true, stream: of("components", late(ping, 5*time.Second))},
	{name: "a heartbeat has another text", part: "8.6.heartbeat", slow: true, stream: of("components", each(ping, func(string) []string { return []string{": heartbeat\n\n"} }))},
	{name: "a heartbeat comes every 10 seconds", part: "8.6.heartbeat", slow: true, stream: of("components", hasty)},
}

// pings applies a change to the heartbeats with some numbers.
func pings(which func(n int) bool, change func(string) []string) framing {
	return func(b *breaker, c *call, in <-chan string, out func(string)) {
		n := 0
		each(func(frame string) bool {
			if !ping(frame) {
				return false
			}
			n++
			return which(n)
		}, change)(b, c, in, out)
	}
}

// hasty sends an additional heartbeat at 10 seconds.
func hasty(b *breaker, _ *call, in <-chan string, out func(string)) {
	early := time.NewTimer(10 * time.Second)
	defer early.Stop()
	for {
		select {
		case frame, more := <-in:
			if !more {
				return
			}
			if !ping(frame) {
				out(frame)
			}
		case <-early.C:
			b.wrong()
			out(":ping\n\n")
		}
	}
}

// resumed changes the event after which a client resumes.
func resumed(change func(after string) string) func(*breaker, *call) *answer {
	return func(b *breaker, c *call) *answer {
		if after := c.header.Get("Last-Event-Id"); after != "" {
			b.wrong()
			c.header.Del("Last-Event-Id")
			if changed := change(after); changed != "" {
				c.header.Set("Last-Event-Id", changed)
			}
		}
		return b.pass(c)
	}
}

var runStreamBreakages = []breakage{
	{name: "an event of a run comes twice", part: "6.1.stages", stream: of("workflows", nth(2, twice))},
	{name: "an event of a run comes ten seconds late", part: "6.1.stages", slow: true, stream: of("workflows", func(b *breaker, c *call, in <-chan string, out func(string)) {
		n := 0
		late(func(frame string) bool {
			if event(frame) {
				n++
			}
			return n == 2 && event(frame)
		}, 10*time.Second)(b, c, in, out)
	})},
	{name: "the last event of a run comes ten seconds late", part: "6.1.stages", slow: true, stream: of("workflows", late(final, 10*time.Second))},
	{name: "an event of a run is missing", part: "6.1.stages", slow: true, stream: of("workflows", nth(2, never))},
	{name: "events of a run come in the wrong order", part: "6.1.stages", stream: of("workflows", swapped)},
	{name: "events of a run come all at the end", part: "6.1.stages", slow: true, stream: of("workflows", func(b *breaker, _ *call, in <-chan string, out func(string)) {
		kept, n := "", 0
		for frame := range in {
			if n++; n == 1 {
				out(frame)
				continue
			}
			b.wrong()
			kept += frame
		}
		out(kept)
	})},
	{name: "the last event of a run is missing", part: "6.1.close", stream: of("workflows", each(final, never))},
	{name: "the last event of a run comes twice", part: "6.1.completed", stream: of("workflows", each(final, twice))},
	{name: "an event of a run has no id", part: "D8.11.id", stream: of("workflows", each(event, func(frame string) []string {
		_, after, _ := strings.Cut(frame, "\n")
		return []string{after}
	}))},
	{name: "an event of a run has another's id", part: "D8.11.frame", stream: of("workflows", each(event, func(frame string) []string {
		return []string{strings.Replace(frame, "id: ", "id: 7", 1)}
	}))},
	{name: "a stream of a run stays open after its end", part: "4.7.close", slow: true, stream: of("workflows", unending)},
	{name: "a stream of a run that is over stays open", part: "3.2.close", slow: true, stream: of("workflows", unending)},
	{name: "a stream of a run ends early", part: "6.1.close", stream: of("workflows", func(b *breaker, _ *call, in <-chan string, out func(string)) {
		for frame := range in {
			b.wrong()
			out(frame)
			return
		}
	})},
	{name: "the event of a run that is COMPLETED comes late", part: "6.1.completed", slow: true, stream: of("workflows", late(final, 6*time.Second))},
	{name: "the event of a run that is FAILED has no error", part: "6.1.failed", stream: of("workflows", each(final, func(frame string) []string {
		before, after, _ := strings.Cut(frame, `"error":{`)
		_, after, _ = strings.Cut(after, `}`)
		return []string{before + `"error":null` + after}
	}))},
	{name: "who comes again hears nothing", part: "6.1.disconnect", slow: true, stream: of("workflows", func(b *breaker, c *call, in <-chan string, out func(string)) {
		if c.header.Get("Last-Event-Id") == "" {
			as(b, c, in, out)
			return
		}
		nth(1, never)(b, c, in, out)
	})},
	{name: "who comes again hears the state three seconds later", part: "6.1.disconnect", slow: true, stream: of("workflows", func(b *breaker, c *call, in <-chan string, out func(string)) {
		if c.header.Get("Last-Event-Id") == "" {
			as(b, c, in, out)
			return
		}
		late(event, 3*time.Second)(b, c, in, out)
	})},
	{name: "Last-Event-ID is not read", part: "D8.11.resume", do: resumed(func(string) string { return "" })},
	{name: "a client that reconnects misses an event", part: "D8.11.resume", do: resumed(func(after string) string { return after + "0" })},
	{name: "no heartbeat of a run comes", part: "6.1.ping", slow: true, stream: of("workflows", each(ping, never))},
	{name: "each heartbeat of a run comes twice", part: "6.1.idle", slow: true, stream: of("workflows", each(ping, twice))},
	{name: "a heartbeat of a run is late", part: "6.1.ping", slow: true, stream: of("workflows", late(ping, 5*time.Second))},
	{name: "a heartbeat of a run comes every 10 seconds", part: "6.1.idle", slow: true, stream: of("workflows", hasty)},
}
