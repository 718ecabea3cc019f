package crashpoint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aquifer-fleet/aquifer/node/crashpoint"
)

// A point that nobody reaches is a test that cannot fail.
func TestEveryPointIsReached(t *testing.T) {
	reached := map[string]int{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if name, ok := pointOf(n); ok {
				reached[name]++
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range crashpoint.Points() {
		if reached[string(p)] != 1 {
			t.Errorf("%s is reached in %d places, want 1", p, reached[string(p)])
		}
	}
}

// pointOf returns the point of a call crashpoint.Reach(crashpoint.Name). A point is named like its
// constant, in lower case.
func pointOf(n ast.Node) (string, bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return "", false
	}
	f, isF := call.Fun.(*ast.SelectorExpr)
	arg, isArg := call.Args[0].(*ast.SelectorExpr)
	if !isF || !isArg || f.Sel.Name != "Reach" {
		return "", false
	}
	return strings.ToLower(arg.Sel.Name), true
}

func TestPointsAreDistinct(t *testing.T) {
	points := crashpoint.Points()
	slices.Sort(points)
	if n := len(slices.Compact(slices.Clone(points))); n != len(points) || n == 0 {
		t.Errorf("%d of %d points are distinct", n, len(points))
	}
}
