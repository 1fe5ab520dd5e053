package pipeline_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSetupFindsTheMirror: scripts/setup derives the entry of a suite from the
// machine's own source, in either format that apt has.
func TestSetupFindsTheMirror(t *testing.T) {
	const key = "/usr/share/keyrings/debian.gpg"
	tests := []struct {
		name  string
		files map[string]string
		want  string // "" for none
	}{
		{
			name: "deb822",
			files: map[string]string{"sources.list.d/debian.sources": "# a comment\nTypes: deb deb-src\n# another\nURIs: http://one.example/debian\n" +
				"Suites: bookworm bookworm-updates\nComponents: main\nSigned-By: " + key + "\n\n" +
				"Types: deb\nURIs: http://two.example/security\nSuites: bookworm-security\nComponents: main\n"},
			want: "URIs: http://one.example/debian\nSigned-By: " + key + "\n",
		},
		{
			name: "deb822, not the first stanza, not the first file",
			files: map[string]string{
				"sources.list.d/a.sources": "Types: deb\nURIs: http://other.example\nSuites: stable\nComponents: main\n",
				"sources.list.d/b.sources": "Types: deb\nURIs: http://security.example\nSuites: bookworm-security\n\n\n" +
					"Suites: bookworm\nTypes: deb\nURIs: http://one.example/debian http://two.example/debian\nTrusted: yes\n",
				"sources.list": "deb http://late.example/debian bookworm main\n",
			},
			want: "URIs: http://one.example/debian http://two.example/debian\nTrusted: yes\n",
		},
		{
			name: "deb822 with a key in it",
			files: map[string]string{"sources.list.d/debian.sources": "Types: deb\nURIs: http://one.example/debian\nSuites:\n bookworm\nSigned-By:\n" +
				" -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n -----END PGP PUBLIC KEY BLOCK-----\nComponents: main\n"},
			want: "URIs: http://one.example/debian\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n -----END PGP PUBLIC KEY BLOCK-----\n",
		},
		{
			name: "deb822, switched off or of sources only",
			files: map[string]string{"sources.list.d/debian.sources": "Types: deb\nEnabled: no\nURIs: http://off.example\nSuites: bookworm\n\n" +
				"Types: deb-src\nURIs: http://src.example\nSuites: bookworm\n"},
		},
		{
			name: "classic",
			files: map[string]string{"sources.list": "#deb http://commented.example bookworm main\ndeb-src http://src.example bookworm main\n" +
				"deb cdrom:[Debian 12]/ bookworm main\n" +
				"deb http://security.example bookworm-security main\n" +
				"deb http://one.example/debian/ bookworm main contrib\ndeb http://two.example/debian bookworm main\n"},
			want: "uris: http://one.example/debian/\n",
		},
		{
			name:  "classic with options",
			files: map[string]string{"sources.list.d/x.list": "deb [ arch=amd64 signed-by=" + key + ",/other.gpg check-valid-until=no ]  http://one.example/debian\tbookworm main\n"},
			want:  "uris: http://one.example/debian\nsigned-by: " + key + " /other.gpg\ncheck-valid-until: no\n",
		},
		{name: "nothing there"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range tt.files {
				path := filepath.Join(dir, name)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			got, err := exec.Command("scripts/setup", "mirror", dir, "bookworm").Output()
			if tt.want == "" {
				require.Error(t, err)
				require.Empty(t, got)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, string(got))
		})
	}
}
