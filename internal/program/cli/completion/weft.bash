# Completion of weft in bash. Once: source <(weft completion bash)
# For good: weft completion bash > ~/.local/share/bash-completion/completions/weft
_weft() {
	local line
	COMPREPLY=()
	while IFS= read -r line; do
		COMPREPLY+=("$line")
	done < <("${COMP_WORDS[0]/#\~/$HOME}" complete-words bash -- "$COMP_WORDBREAKS" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
	if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=.] ]]; then
		compopt -o nospace 2>/dev/null
	fi
}
complete -o default -F _weft weft
