// SPDX-License-Identifier: Apache-2.0

// Command notices writes the licence texts of all that is linked into the
// programs, as their licences ask, and fails when a module's licence is not one
// that rifling may be distributed with.
//
//	go run ./contrib/packaging/notices [-list] >THIRD-PARTY-LICENSES
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	list := flag.Bool("list", false, "write one line for each module instead of the texts")
	flag.Parse()
	if err := run(os.Stdout, *list); err != nil {
		fmt.Fprintf(os.Stderr, "notices: %v\n", err)
		os.Exit(1)
	}
}

// module is what `go list` says of a module that a program is linked with.
type module struct {
	Path, Version, Dir string
	Main               bool
}

func run(w io.Writer, list bool) error {
	mods, err := linked("rifling/cmd/...")
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range mods {
		texts, err := licences(m.Dir)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", m.Path, m.Version, err))
			continue
		}
		for _, t := range texts {
			if list {
				fmt.Fprintf(w, "%-14s %s %s\n", t.kind, m.Path, m.Version)
				continue
			}
			fmt.Fprintf(w, "%s\n%s %s, %s\n%s\n\n%s\n\n", rule, m.Path, m.Version, t.file, rule, strings.TrimSpace(t.text))
		}
	}
	return errors.Join(errs...)
}

var rule = strings.Repeat("=", 78)

// linked returns the modules that the packages are linked with, and Go's own
// library, in the order of their paths.
func linked(pattern string) ([]module, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Module,Standard", pattern)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	goroot, err := exec.Command("go", "env", "GOROOT", "GOVERSION").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	root, version, _ := strings.Cut(strings.TrimSpace(string(goroot)), "\n")
	mods := []module{{Path: "std", Version: version, Dir: root}}
	dec := json.NewDecoder(bytes.NewReader(out))
	for {
		var p struct{ Module *module }
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if p.Module != nil && !p.Module.Main && !slices.Contains(mods, *p.Module) {
			mods = append(mods, *p.Module)
		}
	}
	slices.SortFunc(mods, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return mods, nil
}

// licence is one text that a module asks to be passed on.
type licence struct{ file, kind, text string }

// licences reads the files of a module's root folder that hold its licence.
func licences(dir string) ([]licence, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []licence
	known := false
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		isLicence := strings.HasPrefix(name, "LICENSE") || strings.HasPrefix(name, "LICENCE") || strings.HasPrefix(name, "COPYING")
		if e.IsDir() || !isLicence && !strings.HasPrefix(name, "NOTICE") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		kind := "notice"
		if isLicence {
			if kind = classify(string(text)); kind == "" {
				return nil, fmt.Errorf("%s is a licence that is not on the list of those that rifling may be distributed with", e.Name())
			}
			known = true
		}
		out = append(out, licence{e.Name(), kind, string(text)})
	}
	if !known {
		return nil, errors.New("no licence file")
	}
	return out, nil
}

// classify names a licence by words that only it has; "" when it is none that
// rifling, under Apache-2.0, may be distributed with. Copyleft comes first, so
// that a file which holds several licences is judged by the strictest.
func classify(text string) string {
	flat := strings.ToLower(strings.Join(strings.Fields(text), " "))
	has := func(s string) bool { return strings.Contains(flat, s) }
	switch {
	case has("gnu general public license"), has("gnu affero"), has("gnu lesser"), has("mozilla public license"),
		has("server side public license"), has("business source license"), has("commons clause"):
		return ""
	case has("apache license") && has("version 2.0"):
		return "Apache-2.0"
	case has("redistribution and use in source and binary forms") && has("neither the name"):
		return "BSD-3-Clause"
	case has("redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	case has("permission is hereby granted, free of charge, to any person obtaining a copy"):
		return "MIT"
	case has("permission to use, copy, modify, and/or distribute this software for any purpose"),
		has("permission to use, copy, modify, and distribute this software for any purpose"):
		return "ISC"
	}
	return ""
}
