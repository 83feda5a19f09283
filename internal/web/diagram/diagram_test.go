package diagram_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/weft-automation/weft/internal/web/diagram"
)

func at(t *testing.T, p diagram.Picture, id string) diagram.Node {
	t.Helper()
	for _, node := range p.Nodes {
		if node.ID == id {
			return node
		}
	}
	t.Fatalf("no node %q", id)
	return diagram.Node{}
}

func TestNodesAreBelowTheNodesThatLeadToThem(t *testing.T) {
	p := diagram.Arrange([]string{"a", "b", "c", "d"}, []diagram.Edge{{From: "a", To: "b"}, {From: "a", To: "c"}, {From: "b", To: "d"}, {From: "a", To: "d"}})
	if a, b, d := at(t, p, "a"), at(t, p, "b"), at(t, p, "d"); a.Y >= b.Y || b.Y >= d.Y {
		t.Errorf("a at %d, b at %d, d at %d", a.Y, b.Y, d.Y)
	}
	if b, c := at(t, p, "b"), at(t, p, "c"); b.Y != c.Y {
		t.Errorf("b at %d, c at %d", b.Y, c.Y)
	}
}

func TestBranchesDoNotCrossTheirJoins(t *testing.T) {
	p := diagram.Arrange([]string{"s", "l", "r", "r2", "l2"}, []diagram.Edge{{From: "s", To: "l"}, {From: "s", To: "r"}, {From: "l", To: "l2"}, {From: "r", To: "r2"}})
	if at(t, p, "l2").X >= at(t, p, "r2").X {
		t.Errorf("l2 at %d, r2 at %d", at(t, p, "l2").X, at(t, p, "r2").X)
	}
}

func TestEdgesBetweenTheSameNodesAreOneLine(t *testing.T) {
	p := diagram.Arrange([]string{"a", "b"}, []diagram.Edge{{From: "a", To: "b", Label: "then"}, {From: "a", To: "b", Label: "else"}, {From: "a", To: "b", Soft: true}})
	if len(p.Lines) != 1 || p.Lines[0].Label != "then, else" || p.Lines[0].Soft {
		t.Errorf("%+v", p.Lines)
	}
}

func TestEdgesToOtherNodesAreLeftOut(t *testing.T) {
	p := diagram.Arrange([]string{"a"}, []diagram.Edge{{From: "a", To: "b"}, {From: "b", To: "a"}, {From: "a", To: "a"}})
	if len(p.Lines) != 0 {
		t.Errorf("%+v", p.Lines)
	}
}

func TestNoNodesHaveAnEmptyPicture(t *testing.T) {
	if p := diagram.Arrange(nil, nil); len(p.Nodes) != 0 {
		t.Errorf("%+v", p)
	}
}

// Random graphs, with cycles in some of them.
func TestPicturesAreSound(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		ids, edges := graph(random)
		p := diagram.Arrange(ids, edges)
		if !reflect.DeepEqual(p, diagram.Arrange(ids, edges)) {
			t.Fatalf("%v %v have two pictures", ids, edges)
		}
		for i, a := range p.Nodes {
			if a.X < 0 || a.Y < 0 || a.X+diagram.NodeWidth > p.Width || a.Y+diagram.NodeHeight > p.Height {
				t.Fatalf("%v %v: %v is outside of %d by %d", ids, edges, a, p.Width, p.Height)
			}
			for _, b := range p.Nodes[i+1:] {
				if a.Y == b.Y && max(a.X, b.X)-min(a.X, b.X) < diagram.NodeWidth {
					t.Fatalf("%v %v: %v overlaps %v", ids, edges, a, b)
				}
			}
		}
	}
}

func graph(random *rand.Rand) (ids []string, edges []diagram.Edge) {
	count := 1 + random.IntN(20)
	for i := range count {
		ids = append(ids, fmt.Sprint(i))
	}
	cyclic := random.IntN(4) == 0
	for range random.IntN(2 * count) {
		from, to := random.IntN(count), random.IntN(count)
		if from > to && !cyclic {
			from, to = to, from
		}
		edges = append(edges, diagram.Edge{From: ids[from], To: ids[to]})
	}
	return ids, edges
}
