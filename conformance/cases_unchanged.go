package conformance

import (
	"fmt"
	"net/http"

	"github.com/weft-automation/weft/conformance/probe"
)

var unchangedCases = []Case{
	{Part: "D1.8.unchanged", Name: "unchanged/304 documents that the client has", Run: unchangedDocuments},
	{Part: "D1.8.unchanged, D8.1.versions", Name: "unchanged/304 workflows that the client has", Run: unchangedWorkflows},
}

// coded requests path in one encoding, because the ETag depends on the encoding. Each nonempty
// value of ifNone is sent as a line of If-None-Match.
func coded(t *probe.Trial, method, path, encoding string, ifNone ...string) probe.Answer {
	header := http.Header{"Accept-Encoding": {encoding}}
	for _, line := range ifNone {
		if line != "" {
			header.Add("If-None-Match", line)
		}
	}
	return t.Do(probe.Request{Method: method, Path: path, Header: header})
}

// ifNone requests path with tags as If-None-Match.
func ifNone(t *probe.Trial, path string, tags ...string) probe.Answer {
	return coded(t, http.MethodGet, path, "identity", tags...)
}

// unchanged checks the responses to If-None-Match with the ETag of a full response.
func unchanged(t *probe.Trial, path string) {
	whole := ifNone(t, path, "")
	tag := whole.Header.Get("ETag")
	t.Equal(path, whole.Status, http.StatusOK)
	for _, tags := range [][]string{{tag}, {"W/" + tag}, {`"x", ` + tag}, {`"x"`, tag}, {"*"}} {
		answer := ifNone(t, path, tags...)
		t.Equal(fmt.Sprint(path, " unless ", tags), answer.Status, http.StatusNotModified)
		t.Check(len(answer.Body) == 0, "%s: a 304 has the body %.100s", path, answer.Body)
		for _, name := range []string{"ETag", "Cache-Control", "Vary"} {
			t.Equal(name, answer.Header.Get(name), whole.Header.Get(name))
		}
	}
	head := coded(t, http.MethodHead, path, "identity", tag)
	t.Equal("HEAD", head.Status, http.StatusNotModified)
	for _, tags := range [][]string{{`"x"`}, {"x"}, {tag[1:]}, {`"" `}, {tag[:len(tag)-1] + `-x"`}, {`"x"`, `"y"`}} {
		answer := ifNone(t, path, tags...)
		t.Equal(fmt.Sprint(path, " unless ", tags), answer.Status, http.StatusOK)
		t.Equal("ETag", answer.Header.Get("ETag"), tag)
	}
}

func unchangedDocuments(t *probe.Trial) {
	for _, path := range []string{"/openapi.json", "/openapi.yaml", "/openapi-3.0.json"} {
		unchanged(t, path)
		packed := coded(t, http.MethodHead, path, "gzip", "")
		if packed.Header.Get("Content-Encoding") == "" {
			continue // a proxy in front may want no compression
		}
		tag := packed.Header.Get("ETag")
		t.Equal(path+" unless the compressed one is there", ifNone(t, path, tag).Status, http.StatusOK)
		t.Equal(path+" compressed, unless the uncompressed one is there", coded(t, http.MethodHead, path, "gzip", ifNone(t, path).Header.Get("ETag")).Status, http.StatusNotModified)
		t.Equal(path+" compressed", coded(t, http.MethodHead, path, "gzip", tag).Status, http.StatusNotModified)
	}
	unchanged(t, "/v1/system/components")
}

func unchangedWorkflows(t *probe.Trial) {
	made := create(t, drawn("unchanged"))
	unchanged(t, workflowPath(made.ID))
	unchanged(t, exportPath(made.ID))
	saved := decodeWorkflow(t, put(t, made.ID, drawn("changed"), `"1"`))
	t.Equal("the version before", decodeWorkflow(t, ifNone(t, workflowPath(made.ID), `"1"`)).Version, saved.Version)
	unchanged(t, exportPath(made.ID)+"?version=1")
	// The status of an archived workflow, and of earlier versions, changes without a new version.
	t.Do(probe.Request{Method: http.MethodDelete, Path: workflowPath(made.ID)})
	for _, query := range []string{"", "?version=1", "?version=2"} {
		tag := `"2"`
		if query == "?version=1" {
			tag = `"1"`
		}
		t.Equal("archived"+query, decodeWorkflow(t, ifNone(t, workflowPath(made.ID)+query, tag)).Status, "ARCHIVED")
	}
}
