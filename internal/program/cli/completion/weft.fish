# Completion of weft in fish. Once: weft completion fish | source
# For good: weft completion fish > ~/.config/fish/completions/weft.fish
function __weft_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l found (command $before[1] complete-words fish -- $before[2..-1] "$current" 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        __fish_complete_path "$current"
    end
end
complete -c weft -f -a '(__weft_complete)'
