//go:build ignore

// Longest prints the ten longest functions of the tree (tests aside) and the median of all:
//
//	go run test/longest.go
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log"
	"path/filepath"
	"slices"
	"strings"
)

type function struct {
	name  string
	pos   token.Position
	lines int
}

func main() {
	all, err := functions(".")
	if err != nil {
		log.Fatal(err)
	}
	if len(all) == 0 {
		log.Fatal("no functions below the current folder")
	}
	slices.SortFunc(all, func(a, b function) int {
		return cmp.Or(cmp.Compare(b.lines, a.lines), cmp.Compare(a.name, b.name))
	})
	for _, f := range all[:min(10, len(all))] {
		fmt.Printf("%4d  %s:%d %s\n", f.lines, f.pos.Filename, f.pos.Line, f.name)
	}
	fmt.Printf("%4d  median of %d functions\n", all[len(all)/2].lines, len(all))
}

// functions lists those of every Go file below root, in files' order.
func functions(root string) ([]function, error) {
	var all []function
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testdata" || len(path) > 1 && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		found, err := inFile(path)
		all = append(all, found...)
		return err
	})
	return all, err
}

func inFile(path string) ([]function, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var found []function
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
			start, end := files.Position(f.Pos()), files.Position(f.End())
			found = append(found, function{f.Name.Name, start, end.Line - start.Line + 1})
		}
	}
	return found, nil
}
