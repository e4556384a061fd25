// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"MIT":                     {"Permission is hereby granted, free of\ncharge, to any person obtaining a copy of", "MIT"},
		"Apache":                  {"Apache License\n   Version 2.0, January 2004", "Apache-2.0"},
		"three clauses":           {"Redistribution and use in source and binary forms, with... Neither the name of", "BSD-3-Clause"},
		"two clauses":             {"Redistribution and use in source and binary forms, with or without", "BSD-2-Clause"},
		"copyleft":                {"GNU GENERAL PUBLIC LICENSE Version 3", ""},
		"permissive and copyleft": {"Apache License Version 2.0 ... parts under the GNU Lesser General Public License", ""},
		"nobody knows":            {"All rights reserved.", ""},
	}
	for name, tc := range tests {
		if got := classify(tc.text); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestLicencesOfAModule(t *testing.T) {
	dir := t.TempDir()
	if _, err := licences(dir); err == nil {
		t.Error("a module without a licence was taken")
	}
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("LICENSE.txt", "Apache License Version 2.0")
	put("NOTICE", "by the authors")
	put("README", "not a licence")
	got, err := licences(dir)
	if err != nil || len(got) != 2 {
		t.Fatalf("%v, %v: want licence and notice", got, err)
	}
	put("LICENSE-other", "GNU Affero General Public License")
	if _, err := licences(dir); err == nil {
		t.Error("a second, strict licence was taken")
	}
}

// All that the programs are linked with today may be distributed with them.
func TestEveryModuleIsAllowed(t *testing.T) {
	var out strings.Builder
	if err := run(&out, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"github.com/mattn/go-sqlite3", "std go", "github.com/spf13/cobra"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is linked, and not listed:\n%s", want, out.String())
		}
	}
}
