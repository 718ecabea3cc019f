package node

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// spot is what stands somewhere in the YAML file: the name of an entry, or a value.
type spot struct {
	path  []string
	value string
	name  bool
}

// spots is what stands at each place of the file. The decoder names places, an operator wants paths.
type spots map[yaml.Mark]spot

// spotsOf reads where things stand in the file; nothing, if it is no YAML.
func spotsOf(data []byte) spots {
	at := make(spots)
	var root yaml.Node
	if yaml.Unmarshal(data, &root) != nil {
		return at
	}
	for _, n := range root.Content {
		at.note(n, nil)
	}
	return at
}

// note enters a value and all below it. A mapping in block style begins where its first name does;
// the name is entered last, as the decoder complains of single names more than of whole blocks.
func (at spots) note(n *yaml.Node, path []string) {
	s := spot{path: path, value: n.Value}
	switch n.Kind {
	case yaml.SequenceNode:
		s.value = "a list"
	case yaml.MappingNode:
		s.value = "a block"
	}
	at[yaml.Mark{Line: n.Line, Column: n.Column}] = s
	if n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		below := append(path[:len(path):len(path)], key.Value)
		at.note(n.Content[i+1], below)
		at[yaml.Mark{Line: key.Line, Column: key.Column}] = spot{path: below, value: key.Value, name: true}
	}
}

// problem says in an operator's words what the decoder has against something in the file.
func (at spots) problem(e *yaml.LoadError) Problem {
	s := at[yaml.Mark{Line: e.Mark.Line, Column: e.Mark.Column}]
	p := Problem{Name: strings.Join(s.path, ".")}
	if p.Name == "" {
		p.Name = "line " + strconv.Itoa(e.Mark.Line)
	}
	switch {
	case s.name && strings.Contains(e.Message, "already defined"):
		p.Err = badName("there once")
	case s.name:
		p.Err = badName(s.rule())
	default:
		p.Rule, p.Value = s.rule(), s.value
	}
	return p
}

// badName says what the last name of a path must be; the path shows what it is.
func badName(rule string) error { return fmt.Errorf("the name must be %s", rule) }

// rule is what must stand at the spot.
func (s spot) rule() string {
	depth := len(s.path)
	if s.name {
		depth-- // a name must be one of those that its block has
	}
	inHost := depth > 0 && s.path[0] == "upstreams"
	switch {
	case depth == 0 && s.name:
		return "one of defaults, upstreams, webhooks"
	case depth == 0:
		return "a block of defaults, upstreams and webhooks"
	case inHost && depth == 1 && s.name:
		return hostRule
	case inHost && depth == 1:
		return "a block with an entry for each host"
	case s.name:
		return "one of rps, max_concurrent, timeout, slow_start, share_by, shared"
	}
	switch leaf := s.path[depth-1]; {
	case depth == 1 || inHost && depth == 2:
		return "a block of rps, max_concurrent, timeout, slow_start, share_by and shared"
	case leaf == "rps":
		return rpsRule()
	case leaf == "max_concurrent":
		return maxConcurrentRule()
	case leaf == "slow_start", leaf == "shared":
		return "true or false"
	case leaf == "share_by":
		return shareByRule
	default:
		return timeoutRule()
	}
}
