package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestGossipExample starts the nodes that gossip as the cluster's document does, and has each of them name all three.
func TestGossipExample(t *testing.T) {
	for _, tool := range []string{"curl", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the example uses %s, which is not here", tool)
		}
	}
	text, err := os.ReadFile("../../cluster/README.md")
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, world: newExampleWorld(t), names: gossipNames(t), url: "http://localhost:8081"}
	const meet = `
for i in 1 2 3; do
  for try in $(seq 300); do
    members=$(curl -s localhost:808$i/health | grep -o '"id":"node-[123]"' | sort -u | wc -l)
    [ $members = 3 ] && break
    sleep 0.1
  done
  echo node-$i knows $members
done
trap '' TERM
kill 0
wait
`
	got, err := r.shell(gossipBlock(t, string(text)) + meet)
	if want := "node-1 knows 3\nnode-2 knows 3\nnode-3 knows 3\n"; err != nil || got != want {
		t.Errorf("%v: got %q, want %q", err, got, want)
	}
}

// gossipBlock is the part of a document that starts nodes that gossip.
func gossipBlock(t *testing.T, document string) string {
	t.Helper()
	for _, b := range blocksOf(document) {
		if strings.Contains(b.text, "export AQUIFER_CLUSTER_PROVIDER=gossip") {
			return b.text
		}
	}
	t.Fatal("the document starts no nodes that gossip")
	return ""
}

// gossipNames has the shell choose, by the number of the node, among ports that are free here.
func gossipNames(t *testing.T) (names []alias) {
	t.Helper()
	for _, document := range []string{"localhost:808", "127.0.0.1:794"} {
		here := freeAddresses(t, 3)
		names = append(names, alias{document + "$i", fmt.Sprintf("$(set -- %s; shift $((i-1)); echo $1)", strings.Join(here, " "))})
		for i, address := range here {
			names = append(names, alias{fmt.Sprint(document, i+1), address})
		}
	}
	return names
}
